"""The final status of a run and the exit status of ``leadline run``, derived from the end of the job."""

from __future__ import annotations

import os
import signal
from typing import Final

STOPPED: Final = 10
"""The exit status of a job that a request stopped."""


def end_of_job(
    code: int | None,
    *,
    was_stopped: bool,
    was_signaled: bool,
    was_interrupted: bool,
    has_reported_end: bool,
) -> tuple[str, int]:
    """Return the final status of the run, and the status to exit with.

    Args:
        code: The exit code of the command, -n for signal n; None: unknown.
        was_stopped: Whether a stop request was taken, or enforced.
        was_signaled: Whether the agent itself was sent a signal to end.
        was_interrupted: Whether any signal to end arrived, also from the terminal; the job may have ignored it.
        has_reported_end: Whether all workers of a job without an exit code reported their end.
    """
    final = 0 if code is None else (128 - code if code < 0 else code)
    if was_stopped:
        return "Stopped", STOPPED
    if code in (128 + signal.SIGINT, -signal.SIGINT) or was_signaled:
        return "Interrupted", final
    if code is None:
        return ("Completed" if has_reported_end else "Failed"), final
    if code == 0:
        return "Completed", final
    return ("Interrupted" if was_interrupted else "Failed"), final


def folder_bytes(folder: str) -> int:
    """Return the disk space that a folder uses."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(path, name)).st_blocks * 512
            except OSError:  # it was removed meanwhile
                continue
    return total
