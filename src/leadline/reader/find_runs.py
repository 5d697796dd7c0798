"""Lookup of runs by path, by name, or as the latest run."""

from __future__ import annotations

import glob
import os
import re
from dataclasses import replace

from leadline.config.secrets import scrub_command
from leadline.config.store_uri import is_uri, parse_place
from leadline.errors import DamagedRunError, RunNotFoundError, closest
from leadline.reader.summary import RunSummary, read_start, summarize
from leadline.records.manifest import Manifest
from leadline.remote.mirror import mirror_run
from leadline.remote.root_mirror import mirror_root
from leadline.store import layout
from leadline.store.documents import read_document
from leadline.store.run_files import refuse_links
from leadline.store.run_state import check_format
from leadline.trials.cache import imported_run, is_trial
from leadline.trials.remote_trial import fetch_trial, is_remote_trial

DEFAULT_ROOT = "./leadline-runs"


def runs_root(root: str | os.PathLike[str] | None = None) -> str:
    """Return the runs directory: the one given, ``$LEADLINE_ROOT``, or ``./leadline-runs``."""
    return os.fspath(root or os.environ.get("LEADLINE_ROOT") or DEFAULT_ROOT)


def find_run(place: str | os.PathLike[str] | None = None, root: str | os.PathLike[str] | None = None) -> str:
    """Return the run directory of a run.

    Args:
        place: A path, a URI, or a name in the runs directory; None for the latest run, ``-1`` for the one before it.
            The path of a trial of smdebug is that of its import, which is made where it does not exist yet.
        root: The runs directory.
    Raises:
        RunNotFoundError: There is no such run; the nearest name is suggested.
        DamagedRunError: A folder of the run is a symbolic link.
        ConfigurationError: It is no valid URI, or a trial of which nothing can be read.
        StoreError: It is the URI of an object store that cannot be read.
    """
    place = os.fspath(place) if place is not None else None
    if place is not None and is_uri(place):
        place = parse_place(place)
        return _remote_run(place) if is_uri(place) else find_run(place, root)
    given = parse_place(runs_root(root))
    runs = local_root(given)
    if place is None or re.fullmatch(r"-\d+", place):
        return _fetched(_nth_latest(runs, back=-int(place or 0)), runs, given)
    for path in (place, os.path.join(runs, place)):
        if layout.is_run(path):
            return _fetched(os.path.abspath(path), runs, given)
        if is_trial(path):
            return imported_run(path)
    raise _not_found(place, runs)


def _fetched(path: str, folder: str, root: str) -> str:
    """Return a run directory; where only the documents of a remote run are here, the rest is fetched."""
    is_remote = is_uri(root) and os.path.dirname(path) == os.path.abspath(folder)
    if is_remote:
        return mirror_run(f"{root}/{os.path.basename(path)}")
    refuse_links(path)
    return path


def find_runs(place: str | os.PathLike[str], root: str | os.PathLike[str] | None = None) -> list[str]:
    """Return the run directories of all runs that match.

    Args:
        place: As in ``find_run``; or a folder that contains runs; or a pattern (``lr-*``) of paths, or of names in
            the runs directory.
        root: The runs directory.
    Raises:
        RunNotFoundError: No run matches; the nearest name is suggested.
        ConfigurationError: It is no valid URI.
        StoreError: It is the URI of an object store that cannot be read.
    """
    place = parse_place(os.fspath(place))
    if is_uri(place):
        return _remote_runs(place)
    given = parse_place(runs_root(root))
    runs = local_root(given)
    if glob.has_magic(place) and not os.path.exists(place):
        matched = [*glob.glob(place), *glob.glob(os.path.join(runs, place))]
        found = [run for path in matched for run in _runs_at(path)]
        if not found:
            raise RunNotFoundError(f"no run matches {place!r}, here or in {runs}; leadline ls lists the runs")
        return [_fetched(path, runs, given) for path in sorted(dict.fromkeys(found), key=_numeric_sort_key)]
    try:
        return [find_run(place, root)]
    except RunNotFoundError:
        found = _runs_at(place) or _runs_at(os.path.join(runs, place))
        if not found:
            raise
        return [_fetched(path, runs, given) for path in sorted(found, key=_numeric_sort_key)]


def local_root(root: str) -> str:
    """Return a runs directory; of an object store, the folder with the mirrors of its runs, brought up to date.

    Raises:
        StoreError: The store cannot be read.
    """
    root = parse_place(root)
    return mirror_root(root) if is_uri(root) else root


def _remote_run(uri: str) -> str:
    """Return the mirror of the run at a URI, or the import of the trial there."""
    try:
        return mirror_run(uri)
    except RunNotFoundError:
        if not is_remote_trial(uri):
            raise
        return imported_run(fetch_trial(uri))


def _remote_runs(uri: str) -> list[str]:
    """Return the mirror of the run at a URI, or those of all runs below it."""
    try:
        return [_remote_run(uri)]
    except RunNotFoundError:
        found = [mirror_run(f"{uri}/{os.path.basename(path)}") for path in _run_folders(mirror_root(uri))]
        if not found:
            raise
        return sorted(found, key=_numeric_sort_key)


def _numeric_sort_key(path: str) -> list[tuple[int, float | str]]:
    """Return a sort key that orders ``lr-0.003`` before ``lr-0.01``, and ``run-2`` before ``run-10``."""
    parts = re.split(r"(\d+(?:\.\d+)?)", path)
    return [(0, float(part)) if index % 2 else (1, part) for index, part in enumerate(parts)]


def _runs_at(path: str) -> list[str]:
    """Return the run in a folder, or the runs and trials that it contains; trials are imported."""
    if layout.is_run(path):
        return [os.path.abspath(path)]
    if is_trial(path):
        return [imported_run(path)]
    return [imported_run(inner) if is_trial(inner) else inner for inner in _folders(path) if _is_readable(inner)]


def list_runs(root: str | os.PathLike[str] | None = None) -> list[RunSummary]:
    """Return the runs in a runs directory, the latest first; those without a readable manifest are ``Damaged``.

    Only the few fields that a list shows are read, without a cache: ten thousand runs take about a second.
    """
    summaries = (summarize(path) for path in _folders(local_root(runs_root(root))))
    runs = [summary for summary in summaries if summary is not None]
    return sorted(runs, key=lambda run: (run.started_ns, run.name), reverse=True)


def read_manifest(path: str) -> Manifest:
    """Read the manifest of a run.

    Raises:
        RunNotFoundError: There is no run at the path.
        DamagedRunError: The manifest cannot be read.
        NewerRunError: A later version of Leadline has written the run.
    """
    manifest_path = os.path.join(path, layout.MANIFEST)
    if not os.path.exists(manifest_path):
        raise RunNotFoundError(f"there is no run at {path}; leadline ls lists the runs")
    document = read_document(manifest_path)
    check_format(document, path)
    try:
        manifest = Manifest.from_dict(document)
    except TypeError as error:
        raise DamagedRunError(
            f"{manifest_path} cannot be read as a manifest; the other files of the run are unchanged"
        ) from error
    return replace(manifest, command=scrub_command(manifest.command))  # earlier versions knew fewer secrets


def _is_readable(path: str) -> bool:
    return layout.is_run(path) or is_trial(path)


def _run_folders(root: str) -> list[str]:
    return [path for path in _folders(root) if layout.is_run(path)]


def _folders(root: str) -> list[str]:
    """Return the entries of a folder, whether they are runs or not."""
    folder = os.path.abspath(root)
    try:
        return [os.path.join(folder, name) for name in os.listdir(root)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _nth_latest(root: str, *, back: int) -> str:
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
    ask = f"did you mean {nearest!r}?" if nearest else "leadline ls lists the runs"
    return RunNotFoundError(f"there is no run named {place!r} in {root}; {ask}")
