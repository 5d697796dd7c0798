"""Sums of the phases of the current step."""

from __future__ import annotations

from typing import Final

DATA_IN_OPTIMIZER: Final = 1
FORWARD_IN_OPTIMIZER: Final = 2
BACKWARD_IN_OPTIMIZER: Final = 4
OPTIMIZER_IN_BACKWARD: Final = 8
"""Bits of ``nesting``, as ``records.phases.NESTED`` names them."""


PHASES: Final = tuple((f"{phase}_at", phase, f"{phase}s") for phase in ("data", "forward", "backward", "optimizer"))
"""The attributes with start, duration and number of each phase."""


class PhaseSums:
    """Start, duration and number of each phase since the previous step ended."""

    __slots__ = (
        "backward",
        "backward_at",
        "backwards",
        "data",
        "data_at",
        "datas",
        "forward",
        "forward_at",
        "forwards",
        "nesting",
        "optimizer",
        "optimizer_at",
        "optimizers",
    )

    def __init__(self) -> None:
        self.data_at = self.data = self.datas = 0
        self.forward_at = self.forward = self.forwards = 0
        self.backward_at = self.backward = self.backwards = 0
        self.optimizer_at = self.optimizer = self.optimizers = self.nesting = 0

    def add(self, later: PhaseSums) -> None:
        """Add later sums of the same step."""
        for at, duration, count in PHASES:
            setattr(self, at, getattr(self, at) or getattr(later, at))
            setattr(self, duration, getattr(self, duration) + getattr(later, duration))
            setattr(self, count, getattr(self, count) + getattr(later, count))
        self.nesting |= later.nesting

    def flat(self) -> tuple[int, ...]:
        """Return all values in the order of ``records.phases.STEP_PHASES``."""
        return (
            self.data_at,
            self.data,
            self.datas,
            self.forward_at,
            self.forward,
            self.forwards,
            self.backward_at,
            self.backward,
            self.backwards,
            self.optimizer_at,
            self.optimizer,
            self.optimizers,
        )
