"""Resumption of a run that has ended, in its run directory."""

from __future__ import annotations

import os
import time
from typing import Final

from leadline.errors import ConfigurationError, RunExistsError, RunNotWritableError
from leadline.reader import liveness
from leadline.reader.find_runs import read_manifest
from leadline.records.describe import sender
from leadline.records.names import JOB_ENDED
from leadline.store import layout
from leadline.store.incarnations import begin_incarnation
from leadline.store.node_lock import acquire_lock, release_lock
from leadline.store.upload_state import read_upload

_LOCK_POLL_SECONDS: Final = 0.05


def resume_run(run: str, *, step: int | None = None, is_stop_ignored: bool = False, is_joint: bool = False) -> None:
    """Begin the next incarnation of a run that has ended.

    Args:
        run: The run directory.
        step: The train step at which it continues; None: it follows from the checkpoint that the script loads.
        is_stop_ignored: Whether a run that a rule has stopped is resumed, too.
        is_joint: Whether other processes may do the same; one of them does it.
    Raises:
        RunExistsError: The run has not ended, or a rule has stopped it.
        ConfigurationError: The folder is not a run directory that can be resumed.
        RunNotWritableError: The run cannot be written.
        LeadlineError: It is no readable run.
    """
    name, path = read_manifest(run).name, os.path.join(run, layout.RESUME_LOCK)
    copies = {layout.MIRROR: "a mirror of a run in an object store", layout.TRIAL: "the import of a trial"}
    for file, what in copies.items():
        if os.path.exists(os.path.join(run, file)):
            raise ConfigurationError(f"{run} cannot be resumed: it is {what}, not a run directory")
    if (upload := read_upload(run)).is_joint:
        raise ConfigurationError(
            f"{name} is not resumed by its folder, as its nodes share only a store; give each node: "
            f"leadline run --join {upload.uri}"
        )
    try:
        while (lock := acquire_lock(path)) is None and is_joint:
            time.sleep(_LOCK_POLL_SECONDS)
    except OSError as error:
        raise RunNotWritableError(f"the run cannot be written at {run}: {error.strerror}") from None
    if lock is None:
        raise RunExistsError(f"{name} cannot be resumed: another process resumes it at this moment")
    try:
        _begin_incarnation(run, name, step, is_stop_ignored=is_stop_ignored, is_joint=is_joint)
    finally:
        release_lock(lock, path)


def check_resume_step(step: int | None) -> None:
    """Raise an error if a run cannot be resumed at a step.

    Raises:
        ConfigurationError: It is negative.
    """
    if step is not None and step < 0:
        raise ConfigurationError(f"--resume-step {step}: steps are counted from 0")


def _begin_incarnation(run: str, name: str, step: int | None, *, is_stop_ignored: bool, is_joint: bool) -> None:
    status = liveness.effective_document(run)
    if status.status not in JOB_ENDED:
        if is_joint:
            return  # another process has resumed it
        raise RunExistsError(
            f"{name} cannot be resumed: it is {status.status}; wait for its end, or stop it with: leadline stop {name}"
        )
    rule = sender(status.stopped_by)
    if status.status == "Stopped" and rule != status.stopped_by and not is_stop_ignored:
        raise RunExistsError(
            f"{name} is not resumed: {rule} has stopped it (leadline show {name}); "
            "to resume it all the same: --resume-stopped"
        )
    from leadline.reader.resumption import next_incarnation  # reads tables, which nothing else here does

    begin_incarnation(run, *next_incarnation(run, step))
