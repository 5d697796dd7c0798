"""What the end of a job means: the run's last status, and ours."""

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
    was_told_to_end: bool,
    was_interrupted: bool,
    has_said_ended: bool,
) -> tuple[str, int]:
    """The terminal status of the run, and the status to exit with.

    Args:
        code: As the command ended, -n for signal n; None: nobody can know.
        was_stopped: Whether a stop request was taken, or enforced.
        was_told_to_end: Whether somebody sent us a signal to end.
        was_interrupted: Whether one came at all, also from the terminal, which the job may have outlived.
        has_said_ended: Whether the workers of a job without a code said that they ended.
    """
    final = 0 if code is None else (128 - code if code < 0 else code)
    if was_stopped:
        return "Stopped", STOPPED
    if code in (128 + signal.SIGINT, -signal.SIGINT) or was_told_to_end:
        return "Interrupted", final
    if code is None:
        return ("Completed" if has_said_ended else "Failed"), final
    if code == 0:
        return "Completed", final
    return ("Interrupted" if was_interrupted else "Failed"), final


def folder_bytes(folder: str) -> int:
    """What a folder takes on disk."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(path, name)).st_blocks * 512
            except OSError:  # somebody removed it meanwhile
                continue
    return total
