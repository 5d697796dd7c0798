"""Creation of a run that is uploaded: its name in the store is claimed before anything is written."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import replace
from typing import Final

from leadline.errors import LeadlineError, RunExistsError
from leadline.records.manifest import Manifest
from leadline.remote.object_store import ObjectExistsError, ObjectStore
from leadline.store import layout
from leadline.store.documents import encode
from leadline.store.run_state import create_run
from leadline.store.upload_state import DEFAULT_MAX_BYTES, UploadState, write_upload

_PATIENCE_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.1


def create_uploaded_run(
    path: str,
    root: str,
    manifest: Manifest,
    store: ObjectStore | None = None,
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    is_shared: bool = False,
) -> bool:
    """Create a run directory whose contents are uploaded, and its manifest in the store.

    Args:
        path: The run directory.
        root: The URI below which the run is uploaded.
        store: The store of the run; None: that of the URI.
        max_bytes: The bound of the run directory.
        is_shared: Whether other processes may create it, too.
    Returns:
        Whether this process has created it; False: another one has, which is no error if it is shared.
    Raises:
        RunExistsError: The store has a run of that name; of two jobs that claim it at once, one gets this error.
        StoreError: The store cannot be written. Nothing was created.
        RunNotWritableError: The run directory cannot be written.
    """
    uri = f"{root}/{os.path.basename(path)}"
    store, manifest = store or ObjectStore(uri), replace(manifest, uri=uri)
    if is_shared and layout.is_run(path):
        return False
    try:
        store.put(layout.MANIFEST, encode(manifest.to_dict()) + b"\n", create=True)
    except ObjectExistsError:
        if is_shared and _appears(path):
            return False
        advice = "set LEADLINE_SPOOL to a folder that all nodes see" if is_shared else "choose another --name"
        raise RunExistsError(f"a run already exists at {uri}; {advice}") from None
    try:
        create_run(path, manifest)
        write_upload(path, UploadState(uri, max_bytes=max_bytes))
    except BaseException:
        with suppress(LeadlineError):
            store.delete([layout.MANIFEST])
        raise
    return True


def _appears(path: str) -> bool:
    """Return whether a run directory that another process is creating is there soon."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while not layout.is_run(path) and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
    return layout.is_run(path)
