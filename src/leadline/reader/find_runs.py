"""Finding runs: by path, by name below a root, or as the latest."""

from __future__ import annotations

import glob
import os
import re

from leadline.errors import ConfigurationError, DamagedRunError, RunNotFoundError, closest
from leadline.reader.summary import RunSummary, read_start, summarize
from leadline.records.manifest import Manifest
from leadline.store import layout
from leadline.store.documents import read_document

DEFAULT_ROOT = "./leadline-runs"


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

    Each time all are read, but of each only the few fields that a list shows: ten thousand in a second or so.
    """
    found = (summarize(path) for path in _folders(runs_root(root)))
    runs = [each for each in found if each is not None]
    return sorted(runs, key=lambda each: (each.started_ns, each.name), reverse=True)


def read_manifest(path: str) -> Manifest:
    """A run's manifest.

    Raises:
        RunNotFoundError: There is no run there.
        DamagedRunError: It cannot be read.
    """
    place = os.path.join(path, layout.MANIFEST)
    if not os.path.exists(place):
        raise RunNotFoundError(f"there is no run at {path}; leadline ls lists those there are")
    document = read_document(place)
    try:
        return Manifest.from_dict(document)  # type: ignore[arg-type]
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise DamagedRunError(
            f"{place} is no manifest that can be read; the run's other files are as they were"
        ) from error


def _run_folders(root: str) -> list[str]:
    return [path for path in _folders(root) if layout.is_run(path)]


def _folders(root: str) -> list[str]:
    """What lies in a folder, runs or not."""
    above = os.path.abspath(root)
    try:
        return [os.path.join(above, name) for name in os.listdir(root)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _by_start(root: str, *, back: int) -> str:
    starts = ((read_start(path), path) for path in _folders(root))
    started = [(start.started_ns, path) for start, path in starts if start is not None]
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
