"""Finding runs: by path, by name below a root, or as the latest."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

from leadline.errors import ConfigurationError, DamagedRunError, RunNotFoundError, closest
from leadline.reader import liveness
from leadline.records.manifest import Manifest
from leadline.store import layout
from leadline.store.documents import read_document

DEFAULT_ROOT = "./leadline-runs"


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What can be said of a run without reading its data."""

    name: str
    path: str
    status: str
    """The job's; of a run whose agent is gone, what its workers let one say."""
    manifest: Manifest
    status_document: dict[str, Any]
    workers: dict[str, dict[str, Any]]
    """What each worker said of itself last."""
    rules: dict[str, Any]
    """``rules/summary.json``; empty before the judge wrote one."""

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


def list_runs(root: str | os.PathLike[str] | None = None) -> list[RunSummary]:
    """The runs below a root, the latest first; those whose manifest cannot be read are left out."""
    summaries = []
    for path in _run_folders(runs_root(root)):
        try:
            summaries.append(summarize(path))
        except (DamagedRunError, RunNotFoundError):
            continue
    return sorted(summaries, key=lambda each: (each.manifest.started_ns, each.name), reverse=True)


def summarize(path: str) -> RunSummary:
    """What a run's documents say.

    Raises:
        RunNotFoundError: There is no run there.
        DamagedRunError: Its manifest cannot be read.
    """
    manifest = read_manifest(path)
    rules = read_document(os.path.join(path, layout.RULE_SUMMARY))
    return RunSummary(
        name=manifest.name, path=path, status=liveness.effective_status(path), manifest=manifest,
        status_document=liveness.read_status(path), workers=liveness.read_workers(path),
        rules=rules if isinstance(rules, dict) else {},
    )  # fmt: skip


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
