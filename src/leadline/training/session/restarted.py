"""Workers that torchrun has started again within a job: they continue the run in an incarnation of their own."""

from __future__ import annotations

import os
import time
from typing import Final

from leadline.process.interpreter import own_command, own_environment
from leadline.store.incarnations import read_incarnations
from leadline.store.upload_state import read_upload

_TIMEOUT_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.05


def await_incarnation(run: str) -> None:
    """Return when the incarnation of these workers has begun; at once in others.

    The first worker of the node begins it, in a process of its own, which reads the ends of the streams. If that fails,
    the workers have steps of their own.
    """
    restarts = _number("TORCHELASTIC_RESTART_COUNT")
    if not restarts or read_upload(run).is_joint or read_incarnations(run).restarts >= restarts:
        return
    if _number("LOCAL_RANK") == 0:
        _begin(run, restarts)
        return
    end = time.monotonic() + _TIMEOUT_SECONDS
    while read_incarnations(run).restarts < restarts and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)


def _begin(run: str, restarts: int) -> None:
    import subprocess

    try:
        subprocess.run(
            own_command("leadline.reader.restart", run, str(restarts)),
            env=own_environment() | {"LEADLINE_DISABLED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):  # the workers have steps of their own then
        return


def _number(variable: str) -> int:
    text = os.environ.get(variable, "0")
    return int(text) if text.isdecimal() else 0
