"""Captured steps at which a training learned nothing, because its loss and every gradient were exactly 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MANY: Final = 0.75
"""The share of the captured steps that is worth a remark."""
_MIN_STEPS: Final = 10
"""Captured steps, at least, of which that share is taken."""


@dataclass(slots=True)
class IdleSteps:
    """Counts captured steps with a loss and gradient norms, and those at which all of them were exactly 0."""

    steps: int = 0
    idle: int = 0

    def add(self, *, is_idle: bool) -> None:
        """Add a captured step."""
        self.steps += 1
        self.idle += is_idle

    def product(self) -> dict[str, list[str]]:
        """Return the remark on a training of which most captured steps were idle; empty: none."""
        if self.steps < _MIN_STEPS or self.idle < _MANY * self.steps:
            return {}
        return {
            "remarks": [
                f"the loss and every gradient were exactly 0 at {self.idle:,} of {self.steps:,} captured steps: their "
                "batches taught nothing (in reinforcement learning, groups whose rewards are all equal)"
            ]
        }
