"""Workers that torchrun has started again within a job: they continue the run in an incarnation of their own."""

from __future__ import annotations

import os
import time
from typing import Final

from leadline.process.interpreter import own_command, own_environment
from leadline.store.incarnations import read_incarnations
from leadline.store.node_lock import node_name
from leadline.store.run_state import read_workers

_TIMEOUT_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.05


def await_incarnation(run: str) -> None:
    """Return when the incarnation of these workers has begun; at once in others.

    The first worker of the node begins it, in a process of its own, which reads the ends of the streams. If that fails,
    the workers have steps of their own.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ or not _is_restarted(run):
        return
    if _number("LOCAL_RANK") == 0:
        _begin(run, max(_number("TORCHELASTIC_RESTART_COUNT"), read_incarnations(run).restarts + 1))
        return
    end = time.monotonic() + _TIMEOUT_SECONDS
    while _is_restarted(run) and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)


def _is_restarted(run: str) -> bool:
    """Return whether torchrun has started workers before these, whose incarnation is still the last one.

    Its count of restarts leaves out those after another node has joined or failed, so its earlier workers count, too.
    """
    incarnations, node, parent = read_incarnations(run), node_name(), os.getppid()
    if _number("TORCHELASTIC_RESTART_COUNT") > incarnations.restarts:
        return True
    earlier = [one for one in read_workers(run).values() if (one.node, one.parent_pid) == (node, parent)]
    last = [one for one in earlier if (one.starts[-1].number if one.starts else 0) == incarnations.number]
    return bool(last) and not any(os.path.exists(f"/proc/{one.pid}") for one in last)


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
