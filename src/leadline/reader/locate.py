"""Finding runs: by path, by name below a root, or as the latest."""

from __future__ import annotations

import glob
import hashlib
import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from leadline.errors import ConfigurationError, DamagedRunError, RunNotFoundError, closest
from leadline.reader import liveness
from leadline.records.manifest import Manifest
from leadline.records.names import JOB_ENDED
from leadline.store import layout
from leadline.store.documents import make_folder, read_document, write_document

DEFAULT_ROOT = "./leadline-runs"


@dataclass(frozen=True)
class RunSummary:
    """What can be said of a run without reading its data."""

    name: str
    path: str
    status: str
    """The job's; of a run whose agent is gone, what its workers let one say."""
    manifest_document: dict[str, Any]
    status_document: dict[str, Any]
    workers: dict[str, dict[str, Any]]
    """What each worker said of itself last."""
    rules: dict[str, Any]
    """``rules/summary.json``; empty before the judge wrote one."""

    @cached_property
    def manifest(self) -> Manifest:
        """What it is, as resolved before it started."""
        return Manifest.from_dict(self.manifest_document)

    @property
    def steps(self) -> dict[str, int]:
        """How many steps were made, by mode: of the worker that made the most."""
        counts: dict[str, int] = {}
        for document in self.workers.values():
            for mode, count in document.get("steps", {}).items():
                counts[mode] = max(counts.get(mode, 0), count)
        return counts


def runs_root(root: str | os.PathLike[str] | None = None) -> str:
    """The folder below which runs lie: the one given, ``$LEADLINE_ROOT``, or ``./leadline-runs``."""
    return os.fspath(root or os.environ.get("LEADLINE_ROOT") or DEFAULT_ROOT)


def find_run(place: str | os.PathLike[str] | None = None, root: str | os.PathLike[str] | None = None) -> str:
    """The folder of a run.

    Args:
        place: A path, or a name below the root; None: the run that started last; ``-1``: the one before it.
        root: Where names are looked up.
    Raises:
        RunNotFoundError: There is no such run; the nearest name is suggested.
        ConfigurationError: The place is a URI that this version cannot read.
    """
    below = runs_root(root)
    place = os.fspath(place) if place is not None else None
    if place is None or re.fullmatch(r"-\d+", place):
        return _by_start(below, back=-int(place or 0))
    if re.match(r"[a-z0-9+]+://", place):
        if not place.startswith("file://"):
            raise ConfigurationError(f"{place}: only local runs can be read; copy the run here first")
        place = place.removeprefix("file://")
    for path in (place, os.path.join(below, place)):
        if layout.is_run(path):
            return os.path.abspath(path)
    raise _not_found(place, below)


def find_runs(place: str | os.PathLike[str], root: str | os.PathLike[str] | None = None) -> list[str]:
    """The folders of all runs that a place means.

    Args:
        place: As ``find_run`` has it; or a folder that holds runs; or a pattern (``lr-*``) of paths, or of names
            below the root.
        root: Where names are looked up.
    Raises:
        RunNotFoundError: There is none; the nearest name is suggested.
        ConfigurationError: The place is a URI that this version cannot read.
    """
    below, place = runs_root(root), os.fspath(place)
    if glob.has_magic(place) and not os.path.exists(place):
        matched = [*glob.glob(place), *glob.glob(os.path.join(below, place))]
        found = [run for path in matched for run in _runs_at(path)]
        if not found:
            raise RunNotFoundError(f"no run matches {place!r}, here or in {below}; leadline ls lists those there are")
        return sorted(dict.fromkeys(found), key=_by_numbers)
    try:
        return [find_run(place, root)]
    except RunNotFoundError:
        held = _runs_at(place) or _runs_at(os.path.join(below, place))
        if not held:
            raise
        return sorted(held, key=_by_numbers)


def _by_numbers(path: str) -> list[tuple[int, float | str]]:
    """A sort key that puts ``lr-0.003`` before ``lr-0.01``, and ``run-2`` before ``run-10``."""
    parts = re.split(r"(\d+(?:\.\d+)?)", path)
    return [(0, float(each)) if index % 2 else (1, each) for index, each in enumerate(parts)]


def _runs_at(path: str) -> list[str]:
    """The run of a folder, or those in it."""
    return [os.path.abspath(path)] if layout.is_run(path) else _run_folders(path)


def list_runs(root: str | os.PathLike[str] | None = None) -> list[RunSummary]:
    """The runs below a root, the latest first; those whose manifest cannot be read are left out.

    What was read of runs that are over is remembered in the user's cache, for as long as their documents stay as
    they are: ten thousand runs are listed in a second or two.
    """
    below = runs_root(root)
    memory = ListMemory(below)
    summaries = []
    for path in _run_folders(below):
        try:
            summaries.append(memory.recall(path) or memory.keep(summarize(path)))
        except (DamagedRunError, RunNotFoundError):
            continue
    memory.save()
    return sorted(summaries, key=lambda each: (each.manifest_document["started_ns"], each.name), reverse=True)


class ListMemory:
    """What was read of the runs below a root that are over.

    A run is read again when one of its documents, or the folder of its workers, has another time or size; what was
    written just now counts as changing. Blind spot: a worker that rewrites its document in place after the agent said
    that the job was over.
    """

    def __init__(self, root: str) -> None:
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        told = hashlib.sha256(os.path.realpath(root).encode()).hexdigest()[:24]
        self._path = os.path.join(cache, "leadline", "lists", f"{told}.json")
        found = read_document(self._path) if os.path.exists(self._path) else None
        is_ours = isinstance(found, dict) and found.get("format") == _MEMORY_FORMAT
        self._known: dict[str, Any] = found["runs"] if is_ours else {}  # type: ignore[index]
        self._kept: dict[str, Any] = {}
        self._stamps: dict[str, list[list[int]]] = {}

    def recall(self, path: str) -> RunSummary | None:
        """What is known of a run, if nothing of it has changed."""
        stamps = self._stamps[path] = _stamps(path)
        known = self._known.get(path)
        if known is None or known["stamps"] != stamps:
            return None
        self._kept[path] = known
        return RunSummary(path=path, **known["summary"])

    def keep(self, summary: RunSummary) -> RunSummary:
        """Remember a run that is over."""
        stamps = self._stamps[summary.path]
        is_settled = time.time_ns() - max(each[0] for each in stamps) > _SETTLED_NS
        if summary.status in JOB_ENDED and summary.status_document.get("status") == summary.status and is_settled:
            told = {key: value for key, value in summary.__dict__.items() if key not in ("path", "manifest")}
            self._kept[summary.path] = {"stamps": stamps, "summary": told}
        return summary

    def save(self) -> None:
        """Write down what is new; where that cannot be, the next list takes as long as this one."""
        if self._kept.keys() == self._known.keys() and all(self._kept[key] is self._known[key] for key in self._kept):
            return
        with suppress(OSError):
            make_folder(os.path.dirname(self._path))
            write_document(self._path, {"format": _MEMORY_FORMAT, "runs": self._kept})


_MEMORY_FORMAT: Final = 1
_SETTLED_NS: Final = 2_000_000_000
_TELLING: Final = (layout.MANIFEST, layout.STATUS, layout.RULE_SUMMARY, layout.WORKERS)


def _stamps(path: str) -> list[list[int]]:
    """Time and size of what a summary is made of; -1 where there is none."""
    found = []
    for name in _TELLING:
        try:
            told = os.stat(os.path.join(path, name))
            found.append([told.st_mtime_ns, told.st_size, told.st_ino])
        except OSError:
            found.append([-1, -1, -1])
    return found


def summarize(path: str) -> RunSummary:
    """What a run's documents say.

    Raises:
        RunNotFoundError: There is no run there.
        DamagedRunError: Its manifest cannot be read.
    """
    document, manifest = _read_manifest(path)
    rules = read_document(os.path.join(path, layout.RULE_SUMMARY))
    return RunSummary(
        name=manifest.name, path=path, status=liveness.effective_status(path), manifest_document=document,
        status_document=liveness.read_status(path), workers=liveness.read_workers(path),
        rules=rules if isinstance(rules, dict) else {},
    )  # fmt: skip


def read_manifest(path: str) -> Manifest:
    """A run's manifest.

    Raises:
        RunNotFoundError: There is no run there.
        DamagedRunError: It cannot be read.
    """
    return _read_manifest(path)[1]


def _read_manifest(path: str) -> tuple[dict[str, Any], Manifest]:
    place = os.path.join(path, layout.MANIFEST)
    if not os.path.exists(place):
        raise RunNotFoundError(f"there is no run at {path}; leadline ls lists those there are")
    document = read_document(place)
    try:
        return document, Manifest.from_dict(document)  # type: ignore[return-value,arg-type]
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise DamagedRunError(
            f"{place} is no manifest that can be read; the run's other files are as they were"
        ) from error


def _run_folders(root: str) -> list[str]:
    try:
        with os.scandir(root) as entries:
            return [os.path.abspath(entry.path) for entry in entries if layout.is_run(entry.path)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _by_start(root: str, *, back: int) -> str:
    started = []
    for path in _run_folders(root):
        try:
            started.append((read_manifest(path).started_ns, path))
        except DamagedRunError:
            continue
    started.sort(reverse=True)
    if back < len(started):
        return started[back][1]
    if not started:
        raise RunNotFoundError(f"there are no runs in {root}; leadline run COMMAND starts one")
    raise RunNotFoundError(f"there are only {len(started)} runs in {root}; leadline ls lists them")


def _not_found(place: str, root: str) -> RunNotFoundError:
    names = [os.path.basename(path) for path in _run_folders(root)]
    nearest = closest(os.path.basename(place), names)
    ask = f"did you mean {nearest!r}?" if nearest else "leadline ls lists those there are"
    return RunNotFoundError(f"there is no run named {place!r} in {root}; {ask}")
