"""The phases of a step, and the form in which a training hands the times of one to its writer."""

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
EACH_STEP: Final = (DATA, FORWARD, BACKWARD, OPTIMIZER)
"""What a step may have of itself, in the order of a packed row."""

INITIALIZATION: Final = "initialization"
FINALIZATION: Final = "finalization"
IMPORTS: Final = "imports"
SETUP: Final = "setup"
FIRST_STEP: Final = "first_step"

ROW: Final = struct.Struct("<20q")
"""A step: ``HEAD``, then start, duration and number of each of ``EACH_STEP``; times of ``time.perf_counter_ns``."""
HEAD: Final = ("step", "mode", "start_ns", "duration_ns", "own_ns", "every", "thread", "nesting")
"""``mode`` indexes ``records.names.MODES``; of ``every`` steps this one was written; ``nesting`` is of ``NESTED``."""
ON_DEVICE: Final = 16
"""A bit of ``nesting`` that says: durations are those of the device, not of the host."""
NESTED: Final = {
    1: (DATA, OPTIMIZER),
    2: (FORWARD, OPTIMIZER),
    4: (BACKWARD, OPTIMIZER),
    8: (OPTIMIZER, BACKWARD),
}
"""Bits: which phase went on within which other."""
