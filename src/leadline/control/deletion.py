"""Deletion of runs that have ended."""

from __future__ import annotations

import os
import shutil
import uuid

from leadline.errors import ConfigurationError, RunNotFoundError
from leadline.reader import liveness
from leadline.store import layout


def check_deletable(run: str) -> None:
    """Check that a run directory may be deleted.

    Raises:
        RunNotFoundError: There is no run at the path.
        ConfigurationError: The run has not ended, its agent still writes to it, or the path is a symbolic link.
    """
    name = os.path.basename(run)
    if not layout.is_run(run):
        raise RunNotFoundError(f"there is no run at {run}; leadline ls lists the runs")
    if os.path.islink(run):
        raise ConfigurationError(f"{run} is a symbolic link; delete the run at {os.path.realpath(run)}")
    if not liveness.is_over(run):
        raise ConfigurationError(f"{name} is still running; stop it first: leadline stop {name}")
    if liveness.has_agent(run):
        raise ConfigurationError(f"{name} has ended, but its last results are still being written; try again later")


def delete_run(run: str) -> None:
    """Delete a run directory with everything in it. It disappears from lists at once, even if this is interrupted.

    Raises:
        RunNotFoundError: There is no run at the path.
        ConfigurationError: It must not be deleted, or cannot be; nothing was deleted then.
    """
    check_deletable(run)
    hidden = os.path.join(os.path.dirname(run), f".deleted-{uuid.uuid4().hex[:8]}")
    try:
        os.rename(run, hidden)
        os.remove(os.path.join(hidden, layout.MANIFEST))  # from here on it is no run
        shutil.rmtree(hidden)
    except OSError as error:
        raise ConfigurationError(f"{os.path.basename(run)} cannot be deleted: {error}") from error
