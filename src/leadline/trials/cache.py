"""Imported trials of which the user named no run: imported once, and again when the trial has changed."""

from __future__ import annotations

import hashlib
import os
import shutil
from typing import Final

from leadline.errors import ConfigurationError, RunExistsError
from leadline.store import layout
from leadline.store.cache import cache_folder
from leadline.store.documents import make_folder
from leadline.trials.folder import (
    COLLECTIONS,
    END,
    EVENTS,
    FRAMEWORK,
    INDEX,
    SYSTEM,
    TrialFolder,
    files_below,
    find_trial,
    why_no_trial,
)

_VERSION: Final = "1"
"""Changes with what an import writes."""
_CHARACTERS: Final = 24
_KEPT: Final = 2
"""Imports of one trial that are kept: the latest, and the one that another process may still be reading."""


def is_trial(path: str) -> bool:
    """Return whether a folder is a trial, or that of a job with one, and no run."""
    return not layout.is_run(path) and find_trial(path) is not None


def imported_run(path: str) -> str:
    """Return the run directory of a trial; the trial is imported unless it was since its last change.

    Raises:
        ConfigurationError: There is no trial at the path, or nothing of it can be read.
        OSError: The run could not be written.
    """
    trial = find_trial(path)
    if trial is None:
        raise ConfigurationError(f"{path}: {why_no_trial(path)}")
    of_trial = os.path.join(cache_folder("trials"), _digest([os.path.realpath(trial.path)]))
    imports = os.path.join(of_trial, _digest(_state(trial)))
    run = os.path.join(imports, os.path.basename(os.path.realpath(trial.path)) or "trial")
    if not layout.is_run(run):
        from leadline.trials.importer import import_trial

        make_folder(imports)
        try:
            import_trial(path, run)
        except RunExistsError:
            if not layout.is_run(run):
                raise
        _delete_old(of_trial)
    return run


def _state(trial: TrialFolder) -> list[str]:
    """Return what changes when the trial does: version of the import, and each file with its size and time."""
    lines = [_VERSION]
    for folder, parts in ((trial.tensors, (COLLECTIONS, EVENTS, INDEX)), (trial.profiles, (SYSTEM, FRAMEWORK))):
        for part in parts if folder is not None else ():
            for path in files_below(os.path.join(folder or "", part)):
                state = os.lstat(path)
                lines.append(f"{path} {state.st_size} {state.st_mtime_ns}")
    if trial.tensors is not None:
        lines.append(f"{END} {os.path.exists(os.path.join(trial.tensors, END))}")
    return lines


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()[:_CHARACTERS]


def _delete_old(folder: str) -> None:
    """Delete all but the latest imports of a trial."""
    imports = sorted((entry.stat().st_mtime_ns, entry.path) for entry in os.scandir(folder))
    for _, path in imports[:-_KEPT]:
        shutil.rmtree(path, ignore_errors=True)
