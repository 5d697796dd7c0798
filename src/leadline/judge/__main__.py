"""``python -m leadline.judge RUN``: the judge as a separate process."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from typing import Final

from leadline.errors import LeadlineError
from leadline.judge.judge import Judge, JudgeTerminated
from leadline.judge.rule_pool import HANG_SECONDS, MEMORY_BYTES, WorkerLimits
from leadline.judge.run_trust import RunTrust
from leadline.judge.stored_results import lock_rules
from leadline.reader.pandas_import import skip_pandas_import
from leadline.records.formatting import printable

_LOCK_SECONDS: Final = 3.0
_LOCK_PAUSE_SECONDS: Final = 0.1


def main() -> int:
    """Evaluate the rules of a run, and follow it while it grows."""
    parser = argparse.ArgumentParser(prog="python -m leadline.judge", description="Evaluate the rules of a run.")
    parser.add_argument("run", help="run directory")
    parser.add_argument("--follow", action="store_true", help="continue until the run is over")
    parser.add_argument(
        "--hang-seconds", type=float, default=HANG_SECONDS, help="time limit of a rule for the evaluation of a step"
    )
    parser.add_argument(
        "--memory-bytes", type=int, default=MEMORY_BYTES, help="memory limit of the rules in one process"
    )
    parser.add_argument(
        "--trust", default="", metavar="DIGEST", help="digest of the rules and actions with which the agent was started"
    )
    arguments = parser.parse_args()
    skip_pandas_import()
    # Ctrl-C is meant for the training; the judge ends when the run does.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _on_terminate)
    try:
        limits, run = WorkerLimits(arguments.hang_seconds, arguments.memory_bytes), os.path.abspath(arguments.run)
        judge = Judge(run, limits=limits, trust=RunTrust(digest=arguments.trust))
        _await_lock(run)
        judge.judge(follow=arguments.follow)
    except (LeadlineError, OSError) as error:
        sys.stderr.write(f"leadline: {printable(str(error))}\n")
        return 2
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # nothing is left to end early, and exit handlers must not raise
    return 0


def _await_lock(run: str) -> None:
    """Lock the results of a run until this process ends; a judge that this one replaces may be about to end."""
    until = time.monotonic() + _LOCK_SECONDS
    while lock_rules(run) is None and time.monotonic() < until:
        time.sleep(_LOCK_PAUSE_SECONDS)


def _on_terminate(number: int, _: object) -> None:
    """End the judge: a delivery in progress is given up and recorded as such, everything else ends at once."""
    raise JudgeTerminated(128 + number)


if __name__ == "__main__":
    sys.exit(main())
