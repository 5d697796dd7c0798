"""Runs that end after some steps: those of ``leadline doctor`` and ``leadline check``."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Final

from leadline.process.interpreter import own_command, own_environment
from leadline.records.request import Stop
from leadline.store.control import new_request_id, write_request

_GRACE_SECONDS: Final = 5.0
_PATIENCE_SECONDS: Final = 60.0


def exit_on_signal(number: int, frame: object) -> None:
    """Raise an exception, so that the training is terminated and its folder removed."""
    raise SystemExit(128 + number)


def run_shortly(
    run: str, launched: list[str], limit: float, *, by: str, environment: Mapping[str, str] | None = None
) -> bool:
    """Run a command; return whether it was stopped by the time limit.

    Its standard output goes to standard error, since the result is written to standard output.

    Args:
        limit: The time limit in seconds.
        by: The command of Leadline that runs it.
        environment: Variables that the command gets in addition.
    """
    agent = subprocess.Popen(
        own_command("leadline.agent", run, "--quiet", "--", *launched),
        stdout=sys.stderr,
        env=own_environment({**os.environ, **(environment or {})}),
    )
    try:
        return _await(agent, run, limit, by)
    except BaseException:
        agent.terminate()  # the agent forwards the signal to the training
        agent.wait(_PATIENCE_SECONDS)
        raise


def _await(agent: subprocess.Popen[bytes], run: str, limit: float, by: str) -> bool:
    is_late = False
    while True:
        try:
            agent.wait(_PATIENCE_SECONDS + _GRACE_SECONDS if is_late else limit)
        except subprocess.TimeoutExpired:
            if is_late:
                agent.terminate()
            is_late = True
            request = Stop(
                new_request_id(),
                reason=f"leadline {by}: time limit reached",
                by=by,
                time_ns=time.time_ns(),
                grace_seconds=_GRACE_SECONDS,
            )
            write_request(run, request)
        except KeyboardInterrupt:
            continue  # the training receives the signal, too
        else:
            return is_late
