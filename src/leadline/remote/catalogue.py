"""The catalogue of a root in an object store: what lists show of the runs that have ended, without reading the runs.

Below ``.catalogue/`` a root has one entry for each run that has ended, written by the upload of the run, and one index
of all entries, written by ``leadline ls --rebuild``. An entry consists of the documents of the run that lists show,
reduced to that. A run without an entry is read by its own documents.

Beside them each start and end of a run leaves an empty object, whose name begins with the time: what has changed since
a root was listed is one short listing, however many runs it has.
"""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from leadline.records.decoding import Document
from leadline.records.documents import RuleSummary, RunStatus, SummarizedRule, WorkerDocument
from leadline.records.json_object import JsonObject
from leadline.records.manifest import Manifest
from leadline.records.names import JOB_ENDED
from leadline.records.plan import CapturePlan
from leadline.remote.object_store import ObjectMissingError, ObjectStore
from leadline.remote.objects import is_safe
from leadline.store import layout
from leadline.store.documents import encode, read_document, to_json
from leadline.store.run_state import read_rule_summary, read_status, read_workers

_ENTRIES: Final = ".catalogue/runs"
_INDEX: Final = ".catalogue/index.json.gz"
_CHANGES: Final = ".catalogue/changes"
_SUFFIX: Final = ".json"
_MAX_SINGLE: Final = 32
"""Up to so many new entries are fetched one by one; for more, the index is fetched first."""
_PARALLEL: Final = 16
_KEPT_CHANGES: Final = 1000
"""How many changes are kept when the index is written; a root that was listed before them is listed completely."""

Entry = JsonObject
"""The reduced documents of a run by name; empty: the run continues, and its own documents count."""


def entry_of(run: str) -> Entry:
    """Return the entry of a run; empty if it has not ended, or cannot be read.

    Args:
        run: The run directory, or a mirror.
    """
    status = read_status(run)
    try:
        manifest = Manifest.from_dict(read_document(os.path.join(run, layout.MANIFEST)))
    except TypeError:
        return {}
    if status.status not in JOB_ENDED:
        return {}
    reduced = replace(manifest, plan=CapturePlan(()), rules=(), actions=(), settings=None, versions={})
    entry: Entry = {layout.MANIFEST: reduced.to_dict(), layout.STATUS: _given(status, RunStatus())}
    if (summary := read_rule_summary(run)) is not None:
        rules = [_given(_reduced_rule(rule), SummarizedRule()) for rule in summary.rules]
        entry[layout.RULE_SUMMARY] = _given(replace(summary, announcements=()), RuleSummary()) | {"rules": rules}
    for worker, document in read_workers(run).items():
        entry[layout.worker_document(worker)] = _given(_reduced_worker(document), WorkerDocument())
    return dict(to_json(entry))


def _given(document: Document, default: Document) -> JsonObject:
    """Return the fields that differ from their defaults, which a reader restores."""
    return {key: value for key, value in document.fields().items() if value != getattr(default, key)}


def _reduced_rule(rule: SummarizedRule) -> SummarizedRule:
    return rule if rule.findings else replace(rule, why="", sampling="")


def _reduced_worker(worker: WorkerDocument) -> WorkerDocument:
    size = worker.facts.get("batch_size")
    return WorkerDocument(
        worker=worker.worker,
        state=worker.state,
        steps=worker.steps,
        losses=worker.losses,
        hyperparameters=worker.hyperparameters,
        facts={"batch_size": size} if size else {},
        own_ns=worker.own_ns,
        loop_ns=worker.loop_ns,
        error=worker.error,
    )


def is_run_name(name: str) -> bool:
    """Return whether a name in a store can be that of a run: of a folder, and not of one of Leadline's own."""
    return is_safe(name) and "/" not in name and not name.startswith(".")


def record_change(root: ObjectStore, name: str, time_ns: int) -> None:
    """Record that a run has begun, or has another entry.

    Raises:
        StoreError: It could not be written.
    """
    root.put(f"{_CHANGES}/{time_ns:020d}.{name}", b"")


def changes_since(root: ObjectStore, time_ns: int) -> dict[str, str]:
    """Return the runs of the changes that were recorded after a time, by the names of the changes.

    Raises:
        StoreError: They could not be listed.
    """
    found = root.after(_CHANGES, f"{_CHANGES}/{max(0, time_ns):020d}")
    names = {change: change.rpartition("/")[2].partition(".")[2] for change in found}
    return {change: name for change, name in names.items() if is_run_name(name)}


def publish(root: ObjectStore, name: str, entry: Entry) -> None:
    """Replace the entry of a run.

    Args:
        root: The store of the root.
        name: The name of the run.
    Raises:
        StoreError: It could not be written.
    """
    root.put(f"{_ENTRIES}/{name}{_SUFFIX}", encode(entry))
    record_change(root, name, time.time_ns())


def entry_tags(root: ObjectStore) -> dict[str, str]:
    """Return the tags of all entries by run; a tag changes with its entry.

    Raises:
        StoreError: They could not be listed.
    """
    entries = ((stored.name.rpartition("/")[2], stored.tag) for stored in root.folder(_ENTRIES)[1])
    tags = {name.removesuffix(_SUFFIX): tag for name, tag in entries}
    return {name: tag for name, tag in tags.items() if is_run_name(name)}


def fetch_entries(root: ObjectStore, tags: Mapping[str, str]) -> dict[str, Entry]:
    """Fetch the entries of some runs.

    Args:
        tags: The tags of their entries.
    Raises:
        StoreError: They could not be read.
    """
    found: dict[str, Entry] = {}
    if len(tags) > _MAX_SINGLE:
        found = {name: entry for name, (tag, entry) in _read_index(root).items() if tags.get(name) == tag}
    left = [name for name in tags if name not in found]
    with ThreadPoolExecutor(_PARALLEL) as pool:
        return found | dict(zip(left, pool.map(lambda name: _fetch(root, name), left), strict=True))


def _fetch(root: ObjectStore, name: str) -> Entry:
    try:
        entry = json.loads(root.get(f"{_ENTRIES}/{name}{_SUFFIX}"))
    except (ObjectMissingError, ValueError, RecursionError):  # it was deleted since it was listed, or is damaged
        return {}
    return entry if isinstance(entry, dict) else {}


def _read_index(root: ObjectStore) -> dict[str, tuple[str, Entry]]:
    try:
        packed = root.get(_INDEX)
    except ObjectMissingError:
        return {}
    try:
        return dict(json.loads(gzip.decompress(packed)))
    except (gzip.BadGzipFile, EOFError, ValueError):  # damaged: the entries are fetched one by one
        return {}


def write_index(root: ObjectStore) -> int:
    """Replace the index by one of all entries; return their number.

    Raises:
        StoreError: The store could not be read or written.
    """
    tags = entry_tags(root)
    entries = fetch_entries(root, tags)
    index = {name: (tags[name], entry) for name, entry in sorted(entries.items())}
    root.delete(root.after(_CHANGES, f"{_CHANGES}/")[:-_KEPT_CHANGES])
    root.put(_INDEX, gzip.compress(encode(index), mtime=0))
    return len(index)
