"""Phases of a step, and the packed row in which the training passes a step's times to the writer."""

from __future__ import annotations

import struct
from typing import Final

STEP: Final = "step"
DATA: Final = "data"
HOST: Final = "host"
FORWARD: Final = "forward"
BACKWARD: Final = "backward"
OPTIMIZER: Final = "optimizer"
COLLECTIVE: Final = "collective"
CHECKPOINT: Final = "checkpoint"
COMPUTE: Final = "compute"
STEP_PHASES: Final = (DATA, HOST, FORWARD, BACKWARD, OPTIMIZER)
"""The phases within a step, in the order of a packed row."""

INITIALIZATION: Final = "initialization"
FINALIZATION: Final = "finalization"
IMPORTS: Final = "imports"
SETUP: Final = "setup"
FIRST_STEP: Final = "first_step"

HEAD: Final = (
    *("step", "mode", "start_ns", "duration_ns", "own_ns", "every", "thread", "nesting"),
    *("ready_ns", "run_delay_ns", "mode_step"),
)
"""``mode`` indexes ``records.names.MODES``; one of ``every`` steps is written; ``nesting`` holds bits of ``NESTED``.

``ready_ns`` and ``run_delay_ns`` are totals of the training's thread at the end of the step: its processor time and run
delay together, and its run delay. ``mode_step`` is the step within the mode. -1: not taken, or unknown.
"""
PHASE_FIELDS: Final = ("at", "ns", "count", "ready_ns")
"""Start, duration and number of a phase, and the processor time and known run delay of the training's thread in it."""
ROW: Final = struct.Struct(f"<{len(HEAD) + len(PHASE_FIELDS) * len(STEP_PHASES)}q")
"""A step: ``HEAD``, then ``PHASE_FIELDS`` of each of ``STEP_PHASES``; times of ``time.perf_counter_ns``."""
ON_DEVICE: Final = 16
"""A bit of ``nesting``: the durations are device times, not host times."""
HAS_READY: Final = 32
"""A bit of ``nesting``: the ready times of the phases were taken."""
NESTED: Final = {
    1: (DATA, OPTIMIZER),
    2: (FORWARD, OPTIMIZER),
    4: (BACKWARD, OPTIMIZER),
    8: (OPTIMIZER, BACKWARD),
}
"""Bits of ``nesting``: the first phase ran within the second."""
