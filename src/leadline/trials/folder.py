"""Files of a trial: where its tensors and profiles lie, its index files, and its collections."""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, cast

from leadline.errors import ConfigurationError
from leadline.formats.smdebug_json import CollectionEntry
from leadline.records.json_object import JsonObject
from leadline.store.folder_watch import names_in
from leadline.store.run_files import read_regular

COLLECTIONS: Final = "collections"
EVENTS: Final = "events"
INDEX: Final = "index"
END: Final = "training_job_end.ts"
"""An empty file that marks the end of the training."""
SYSTEM: Final = "system"
FRAMEWORK: Final = "framework"
TENSORS_OF_JOB: Final = "debug-output"
_PROFILES_OF_JOB: Final = "profiler-output"
_PROFILE_FOLDERS: Final = frozenset({"pevents", "cprofile", "pyinstrument"})

_INDEX_NAME: Final = re.compile(r"(\d{12})_(\w[\w.-]*)\.json", re.ASCII)
_EVENT_NAME: Final = re.compile(r"(\d{12})_(\w[\w.-]*)\.tfevents", re.ASCII)
_COLLECTIONS_SUFFIX: Final = "_collections.json"
MAX_BYTES: Final = 64 << 20
"""The largest file of a trial that is read at once; an index file of ten thousand tensors has two megabytes."""
_TABLES: Final = ("reduction_config", "save_config")
_MAX_NUMBER: Final = 1 << 62
_MODES: Final = frozenset({"TRAIN", "EVAL", "PREDICT", "GLOBAL"})


DAMAGE: Final = (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, struct.error)
"""What reading a damaged file of a trial raises: its values may be of any type and size."""


@dataclass(frozen=True, slots=True)
class TrialFolder:
    """A trial: the folder of its tensors, the folder of its profiles, or both."""

    path: str
    tensors: str | None
    """The folder with ``collections``, ``events`` and ``index``."""
    profiles: str | None
    """The folder with ``system`` and ``framework``."""

    @property
    def has_ended(self) -> bool:
        """Whether the training has ended, as far as the trial says; profiles alone do not say it."""
        return self.tensors is None or os.path.exists(os.path.join(self.tensors, END))


@dataclass(frozen=True, slots=True)
class Record:
    """The place of a tensor's record in an event file."""

    name: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class IndexFile:
    """What one worker saved at one step."""

    path: str
    """Relative to the folder of the tensors."""
    worker: str
    step: int
    """The global step."""
    mode: str
    mode_step: int
    events: str
    """The event file, relative to the folder of the tensors; empty: only shapes were saved."""
    records: tuple[Record, ...]
    shapes: dict[str, tuple[int, ...]]


@dataclass(slots=True)
class Collections:
    """The collections of a trial.

    Attributes:
        entries: The entries of the collections files by name, with the tensors of all workers.
        workers: The number of workers that write, according to the files.
    """

    entries: dict[str, CollectionEntry] = field(default_factory=dict)
    workers: int = 0

    def of(self, tensor: str) -> tuple[str, ...]:
        """Return the collections of a tensor.

        One that was first saved after the collections were written is matched by their regular expressions, except by
        those of ``all``.
        """
        listed = tuple(name for name, entry in self.entries.items() if tensor in entry["tensor_names"])
        if listed:
            return listed
        return tuple(
            name
            for name, entry in self.entries.items()
            if name != "all" and any(_matches(pattern, tensor) for pattern in entry.get("include_regex") or ())
        )


def find_trial(path: str) -> TrialFolder | None:
    """Return the trial at a path: its folder, or that of a job with ``debug-output`` and ``profiler-output``."""
    tensors = next((folder for folder in (path, os.path.join(path, TENSORS_OF_JOB)) if _has_tensors(folder)), None)
    profiles = next((folder for folder in (path, os.path.join(path, _PROFILES_OF_JOB)) if _has_profiles(folder)), None)
    return TrialFolder(os.path.abspath(path), tensors, profiles) if tensors or profiles else None


def why_no_trial(path: str) -> str:
    """Return why there is no trial at a path, and what a trial is."""
    if not os.path.exists(path):
        return "no such folder; give the folder of a trial"
    if not os.path.isdir(path):
        return "is a file; give the folder of the trial, which contains collections, events and index"
    return (
        "is not a trial: a trial contains collections, events and index, or system and framework; of a job, "
        "give the folder that contains debug-output and profiler-output"
    )


def _has_tensors(folder: str) -> bool:
    has_data = any(os.path.isdir(os.path.join(folder, part)) for part in (EVENTS, INDEX))
    return has_data and os.path.isdir(os.path.join(folder, COLLECTIONS))


def _has_profiles(folder: str) -> bool:
    if os.path.isdir(os.path.join(folder, SYSTEM, "incremental")):
        return True
    framework = os.path.join(folder, FRAMEWORK)
    inner = [*names_in(framework), *(name for part in names_in(framework) for name in names_in(f"{framework}/{part}"))]
    return not _PROFILE_FOLDERS.isdisjoint(inner)


def files_below(folder: str) -> Iterator[str]:
    """Yield the paths of all files below a folder, in order; those that are still being written are left out."""
    for inside, folders, names in os.walk(folder):
        folders.sort()
        yield from (os.path.join(inside, name) for name in sorted(names) if not name.endswith(".tmp"))


def read_collections(folder: str, damage: list[str]) -> Collections:
    """Read the collections of all workers.

    Args:
        folder: The folder of the tensors.
        damage: Receives a line for each file that cannot be read.
    """
    collections = Collections()
    paths = [path for path in files_below(os.path.join(folder, COLLECTIONS)) if path.endswith(_COLLECTIONS_SUFFIX)]
    for path in paths:
        try:
            document = read_json(path)
            collections.workers = max(collections.workers, int(document["_meta"]["num_workers"]))
            for name, entry in document["collections"].items():
                read = _entry(entry)
                known = collections.entries.setdefault(str(name), read)
                known["tensor_names"] = sorted({*known["tensor_names"], *read["tensor_names"]})
        except DAMAGE as error:
            damage.append(
                f"{os.path.relpath(path, folder)} cannot be read ({reason(error)}); its collections are missing"
            )
    if not paths:
        damage.append(f"{COLLECTIONS}: there is no collections file; no tensor belongs to a collection")
    return collections


def _entry(entry: Any) -> CollectionEntry:
    """Return the entry of a collection whose parts have the types that smdebug writes; others are left out.

    Raises:
        KeyError, TypeError, AttributeError: It has no names of tensors.
    """
    tables: JsonObject = {name: value for name in _TABLES if isinstance(value := entry.get(name), dict)}
    if isinstance(configs := tables.get("save_config"), dict):
        tables["save_config"] = {mode: config for mode, config in configs.items() if isinstance(config, dict)}
    patterns = [str(pattern) for pattern in entry.get("include_regex") or ()]
    kept = {name: value for name, value in entry.items() if name not in _TABLES}
    names = [str(name) for name in entry["tensor_names"]]
    return cast(CollectionEntry, {**kept, **tables, "include_regex": patterns, "tensor_names": names})


def read_index(folder: str, damage: list[str]) -> list[IndexFile]:
    """Read all index files, ordered by worker and step.

    Args:
        folder: The folder of the tensors.
        damage: Receives a line for each file that cannot be read, and for the event files without an index file.
    Raises:
        ConfigurationError: There is no index file.
    """
    found = []
    paths = index_paths(folder)
    if not paths:
        raise ConfigurationError(
            f"{folder}: a trial without index files; nothing was saved completely, or copy {INDEX} too"
        )
    for path in paths:
        place = os.path.relpath(path, folder)
        try:
            found.append(parse_index(place, read_json(path)))
        except DAMAGE as error:
            damage.append(f"{place} cannot be read ({reason(error)}); its step is left out")
    indexed = {os.path.basename(path).removesuffix(".json") for path in paths}
    events = [os.path.basename(path) for path in files_below(os.path.join(folder, EVENTS))]
    alone = [name for name in events if _EVENT_NAME.fullmatch(name) and name.removesuffix(".tfevents") not in indexed]
    if alone:
        damage.append(f"{EVENTS}: {', '.join(alone[:3])}{' …' if len(alone) > 3 else ''}: no index file; left out")
    return sorted(found, key=lambda file: (file.worker, file.step))


def index_paths(folder: str) -> list[str]:
    """Return the paths of the index files of a trial, in order of the steps."""
    return [path for path in files_below(os.path.join(folder, INDEX)) if path.endswith(".json")]


def parse_index(place: str, document: Any, *, is_whole: bool = True) -> IndexFile:
    """Return what an index file says.

    Args:
        place: Its path relative to the folder of the tensors.
        is_whole: Whether its tensors must have an event file.
    Raises:
        ValueError, KeyError, TypeError, AttributeError: It is damaged.
    """
    match = _INDEX_NAME.fullmatch(os.path.basename(place))
    if match is None:
        raise ValueError("its name is not <step>_<worker>.json")
    if "tensor_payload" not in document and "shape_payload" not in document:
        raise ValueError("it lists neither tensors nor shapes")
    meta = document["meta"]
    mode, events = meta["mode"].strip(), meta.get("event_file_name") or ""
    if mode not in _MODES:
        raise ValueError(f"unknown mode {mode!r}")
    payload = document.get("tensor_payload") or ()
    records = tuple(Record(str(one["tensorname"]), int(one["start_idx"]), int(one["length"])) for one in payload)
    if records and not _is_inside(events) and (is_whole or events):
        raise ValueError(f"it names no event file of the trial: {events!r}")
    mode_step = int(meta["mode_step"])
    if any(min(record.offset, record.length) < 0 for record in records) or mode_step < 0:
        raise ValueError("it has a negative offset, length or step")
    if max([mode_step, *(max(record.offset, record.length) for record in records)]) >= _MAX_NUMBER:
        raise ValueError("it has a number that no file has")
    shapes = {str(one["tensorname"]): tuple(map(int, one["shape"])) for one in document.get("shape_payload") or ()}
    return IndexFile(place, match[2], int(match[1]), mode.lower(), mode_step, events, records, shapes)


def _is_inside(path: str) -> bool:
    return bool(path) and not os.path.isabs(path) and ".." not in path.split("/")


def read_json(path: str) -> Any:
    """Read a JSON file.

    Raises:
        OSError: It cannot be read.
        ValueError: It is not JSON.
    """
    try:
        return json.loads(read_regular(path, MAX_BYTES))
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def reason(error: Exception) -> str:
    """Return why a file cannot be read, in a few words."""
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON at byte {error.pos}"
    if isinstance(error, KeyError):
        return f"{error} is missing"
    return str(error)


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return False
