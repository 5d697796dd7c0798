"""Phases of a step, and the packed row in which the training passes a step's times to the writer."""

from __future__ import annotations

import struct
from typing import Final

STEP: Final = "step"
DATA: Final = "data"
FORWARD: Final = "forward"
BACKWARD: Final = "backward"
OPTIMIZER: Final = "optimizer"
COLLECTIVE: Final = "collective"
CHECKPOINT: Final = "checkpoint"
STEP_PHASES: Final = (DATA, FORWARD, BACKWARD, OPTIMIZER)
"""The phases within a step, in the order of a packed row."""

INITIALIZATION: Final = "initialization"
FINALIZATION: Final = "finalization"
IMPORTS: Final = "imports"
SETUP: Final = "setup"
FIRST_STEP: Final = "first_step"

ROW: Final = struct.Struct("<20q")
"""A step: ``HEAD``, then start, duration and count of each of ``STEP_PHASES``; times of ``time.perf_counter_ns``."""
HEAD: Final = ("step", "mode", "start_ns", "duration_ns", "own_ns", "every", "thread", "nesting")
"""``mode`` indexes ``records.names.MODES``; one of ``every`` steps is written; ``nesting`` holds bits of ``NESTED``."""
ON_DEVICE: Final = 16
"""A bit of ``nesting``: the durations are device times, not host times."""
NESTED: Final = {
    1: (DATA, OPTIMIZER),
    2: (FORWARD, OPTIMIZER),
    4: (BACKWARD, OPTIMIZER),
    8: (OPTIMIZER, BACKWARD),
}
"""Bits of ``nesting``: the first phase ran within the second."""
