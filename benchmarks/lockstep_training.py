"""A training that takes turns with another process, a few steps each; ``lockstep.py`` runs two of them.

Usage: lockstep_training.py KIND STEPS RESULT OWN_TURN OTHER_TURN. Turns are named pipes: whoever has read a byte from
its own pipe makes a block of steps, and passes the turn on. RESULT is a JSON file with the processor time of the
training's thread in each step in microseconds: ``open``, and then ``closed``, after Leadline has left the process.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from whole_training import KINDS, Step

_BLOCK = 12
_AFTER_TURN = 2
"""So many first steps of a block have the caches of the other process, and do not count."""


def blocks(step: Step, count: int, own: int, other: int) -> list[float]:
    """Make blocks of steps in turn with the other process; return the microseconds of each step that counts."""
    times = []
    for _ in range(count):
        os.read(own, 1)
        for index in range(_BLOCK):
            begun = time.thread_time_ns()
            step()
            if index >= _AFTER_TURN:
                times.append((time.thread_time_ns() - begun) / 1e3)
        os.write(other, b"x")
    return times


def main() -> None:
    kind, steps, result, own_path, other_path = sys.argv[1:]
    own, other = os.open(own_path, os.O_RDWR), os.open(other_path, os.O_RDWR)
    step, count = KINDS[kind](), max(int(steps) // _BLOCK, 1)
    for _ in range(int(steps) // 2):
        step()  # the first captures are not those of every step
    times = {"open": blocks(step, count, own, other)}
    api = sys.modules.get("leadline.training.session.api")
    if api is not None:
        api.stop_current()
    times["closed"] = blocks(step, count, own, other)
    Path(result).write_text(json.dumps(times))


if __name__ == "__main__":
    main()
