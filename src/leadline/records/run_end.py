"""How a run ended, or is going, in a few words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from leadline.records import describe
from leadline.records.documents import RunStatus, WorkerDocument
from leadline.records.formatting import number, signal_name
from leadline.records.totals import steps_by_mode

RUNNING: Final = {"Starting": "Starting", "InProgress": "Running", "Stopping": "Stopping"}
"""How the statuses of a run that has not ended are shown."""
_NOTHING: Final = "Completed: no step was seen"
_BY: Final = {"user": "by hand", "action": "by an action"}
_FIRST_SIGNAL_STATUS: Final = 128


def how_it_ended(status: RunStatus, workers: Sequence[WorkerDocument]) -> str:
    """Return how the run ended or is going: ``Stopped at step 602 by exploding_tensor``."""
    counts = steps_by_mode(workers)
    train, trainings = counts.get("train", 0), describe.in_trainings(workers)
    if status.status in RUNNING:
        return f"{RUNNING[status.status]}: {_steps(counts)}{trainings}" if counts else RUNNING[status.status]
    if status.status == "Completed":
        is_cut = any(worker.off is not None for worker in workers)
        return f"Completed: {_steps(counts)}{' captured' * is_cut}{trainings}" if counts else _NOTHING
    if status.status == "Stopped":
        by = describe.sender(status.stopped_by)
        who = _BY.get(by, f"by {by}" if by else "")
        return " ".join(part for part in ("Stopped", f"at step {number(train - 1)}" if train else "", who) if part)
    place = f"at step {number(train)}" if train else f"after {_steps(counts)}" if counts else "before the first step"
    if status.status == "Failed":
        error = error_of(status, workers)
        return f"Failed{_exit(status.exit_status)} {place}" + (f": {error}" if error else "")
    return f"{status.status} {place}" + (": job and agent ended without a final status" if _is_lost(status) else "")


def _is_lost(status: RunStatus) -> bool:
    return status.status == "Interrupted" and status.exit_status is None


def _steps(counts: Mapping[str, int]) -> str:
    """Return the training steps; those of other modes only where nothing was trained."""
    return describe.steps({"train": counts["train"]} if counts.get("train") else counts)


def _exit(code: int | None) -> str:
    """`` with exit status 139 (SIGSEGV)``."""
    if code is None:
        return ""
    name = signal_name(code - _FIRST_SIGNAL_STATUS) if code > _FIRST_SIGNAL_STATUS else ""
    return f" with exit status {code}" + (f" ({name})" if name.startswith("SIG") else "")


def error_of(status: RunStatus, workers: Iterable[WorkerDocument]) -> str:
    """Return the exception that ended a worker, or the job before its first step; empty: none is known."""
    return next((worker.error for worker in workers if worker.error), status.error)
