"""Creation of a run that is uploaded: its name in the store is claimed before anything is written."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace

from leadline.errors import LeadlineError, RunExistsError
from leadline.records.manifest import Manifest
from leadline.remote.object_store import ObjectExistsError, ObjectStore
from leadline.store import layout
from leadline.store.documents import encode
from leadline.store.run_state import create_run
from leadline.store.upload_state import DEFAULT_MAX_BYTES, UploadState, write_upload


def create_uploaded_run(
    path: str, root: str, manifest: Manifest, store: ObjectStore | None = None, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> None:
    """Create a run directory whose contents are uploaded, and its manifest in the store.

    Args:
        path: The run directory.
        root: The URI below which the run is uploaded.
        store: The store of the run; None: that of the URI.
        max_bytes: The bound of the run directory.
    Raises:
        RunExistsError: The store has a run of that name; of two jobs that claim it at once, one gets this error.
        StoreError: The store cannot be written. Nothing was created.
        RunNotWritableError: The run directory cannot be written.
    """
    uri = f"{root}/{os.path.basename(path)}"
    store = store or ObjectStore(uri)
    manifest = replace(manifest, uri=uri)
    try:
        store.put(layout.MANIFEST, encode(manifest.to_dict()) + b"\n", create=True)
    except ObjectExistsError:
        raise RunExistsError(f"a run already exists at {uri}; choose another --name") from None
    try:
        create_run(path, manifest)
        write_upload(path, UploadState(uri, max_bytes=max_bytes))
    except BaseException:
        with suppress(LeadlineError):
            store.delete([layout.MANIFEST])
        raise
