"""Trials in object stores: copies of them, which are read as any local trial."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from leadline.errors import ConfigurationError
from leadline.records.decoding import Document
from leadline.remote.fetching import safe_path
from leadline.remote.mirror import exclusive
from leadline.remote.object_store import ObjectStore, StoredObject
from leadline.store import layout
from leadline.store.cache import cache_folder
from leadline.store.documents import make_folder, read_document, replace_file, write_document
from leadline.trials.folder import COLLECTIONS, END, EVENTS, FRAMEWORK, INDEX, SYSTEM, TENSORS_OF_JOB

_COPIES: Final = "fetched-trials"
_STATE: Final = ".copy.json"
_PARALLEL: Final = 16
_ORDER: Final = (EVENTS, SYSTEM, FRAMEWORK, COLLECTIONS, INDEX, END)
"""The parts of a trial; each is fetched when what it refers to is here."""
_OF_JOB: Final = (f"{TENSORS_OF_JOB}/", "profiler-output/")


@dataclass(frozen=True, slots=True)
class CopyState(Document):
    """``.copy.json``: what a copy consists of."""

    tags: dict[str, str] = field(default_factory=dict)
    """The tags of the objects that were fetched, by name."""


def fetch_trial(uri: str) -> str:
    """Bring the copy of a trial up to date; return its folder.

    Args:
        uri: The trial, or a job with ``debug-output`` and ``profiler-output``.
    Raises:
        ConfigurationError: There is no trial at the URI.
        MissingExtraError: obstore is not installed.
        StoreError: The store cannot be read.
    """
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    identity = hashlib.sha256(f"{endpoint} {uri}".encode()).hexdigest()[:16]
    folder = os.path.join(cache_folder(_COPIES), identity, os.path.basename(uri))
    store = ObjectStore(uri)
    with exclusive(folder):
        objects = [(part, stored) for stored in store.objects() if (part := _part(stored.name)) is not None]
        if not objects:
            raise ConfigurationError(
                f"{uri}: there is no trial; a trial contains collections, events and index, or system and framework"
            )
        make_folder(folder)
        _fetch(store, folder, objects)
    return folder


def is_remote_trial(uri: str) -> bool:
    """Return whether there is a trial at a URI, or a job with one.

    Raises:
        StoreError: The store cannot be read.
    """
    store = ObjectStore(uri)
    if any(stored.name == layout.MANIFEST for stored in store.folder()[1]):
        return False  # a run, which has a folder system as well
    places = (None, *_OF_JOB)
    return any(name.rpartition("/")[2] in _ORDER for place in places for name in store.folder(place)[0])


def _fetch(store: ObjectStore, folder: str, objects: list[tuple[int, StoredObject]]) -> None:
    state_path = os.path.join(folder, _STATE)
    tags = CopyState.from_dict(read_document(state_path)).tags
    changed = [(part, stored) for part, stored in objects if tags.get(stored.name) != stored.tag]

    def fetch(stored: StoredObject) -> None:
        path = safe_path(folder, stored.name)
        content = store.get(stored.name)
        make_folder(os.path.dirname(path))
        with replace_file(path) as file:
            file.write(content)

    with ThreadPoolExecutor(_PARALLEL) as pool:
        for part in range(len(_ORDER)):
            list(pool.map(fetch, [stored for of_part, stored in changed if of_part == part]))
    current = {stored.name: stored.tag for _, stored in objects}
    for name in tags.keys() - current.keys():
        os.unlink(safe_path(folder, name))
    if current != tags:
        write_document(state_path, CopyState(current))


def _part(name: str) -> int | None:
    """Return which part of a trial an object belongs to; None: to none."""
    for prefix in _OF_JOB:
        name = name.removeprefix(prefix)
    first = name.partition("/")[0]
    return _ORDER.index(first) if first in _ORDER else None
