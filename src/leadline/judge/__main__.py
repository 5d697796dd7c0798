"""``python -m leadline.judge RUN``: the judge as a process of its own."""

from __future__ import annotations

import argparse
import os
import signal
import sys

from leadline.errors import LeadlineError
from leadline.judge.judge import EndedEarly, judge_run
from leadline.judge.rule_pool import HANG_SECONDS, MEMORY_BYTES, WorkerLimits


def main() -> int:
    """Judge, and follow the run while it grows."""
    parser = argparse.ArgumentParser(prog="python -m leadline.judge", description="Judge a run.")
    parser.add_argument("run", help="the run's folder")
    parser.add_argument("--follow", action="store_true", help="go on until the run is over")
    parser.add_argument(
        "--hang-seconds", type=float, default=HANG_SECONDS, help="how long a rule may think about a step"
    )
    parser.add_argument(
        "--memory-bytes", type=int, default=MEMORY_BYTES, help="how much memory the rules of a process may take"
    )
    given = parser.parse_args()
    # Ctrl-C is meant for the training; the judge ends when the run does.
    for each in (signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _hurry)
    try:
        limits = WorkerLimits(given.hang_seconds, given.memory_bytes)
        judge_run(os.path.abspath(given.run), write=True, follow=given.follow, limits=limits)
    except (LeadlineError, OSError) as error:
        sys.stderr.write(f"leadline: {error}\n")
        return 2
    return 0


def _hurry(number: int, _: object) -> None:
    """Told to end: while it delivers what is left it gives that up, and says so; else it ends at once."""
    raise EndedEarly(128 + number)


if __name__ == "__main__":
    sys.exit(main())
