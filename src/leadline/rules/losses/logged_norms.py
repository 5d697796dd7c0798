"""The gradient norm that a script logs, beside that of the gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from leadline.records.formatting import significant
from leadline.records.metric_roles import GRADIENT_NORM, role_in
from leadline.rules import Window
from leadline.rules.losses.logged_metrics import logged
from leadline.rules.update_limits import NEEDS

NEED: Final = NEEDS[0]
_MIN_STEPS: Final = 5
_TOLERANCE: Final = 0.05
"""By this share a logged norm may differ: it may be rounded, or computed in half precision."""
_CONSTANT: Final = 0.01
_NORMS: Final = ("gradient_norm", "gradient_norm_before_clipping")


@dataclass(slots=True)
class LoggedNorm:
    """A logged gradient norm at the steps at which that of the gradients is known as well, of one worker."""

    ratios: list[float] = field(default_factory=list)
    """The logged norm as a share of that of the gradients, before clipping if they are clipped."""
    has_agreed: bool = False
    """Whether it was one of the norms that are known, before or after clipping, at a step."""

    @staticmethod
    def note(known: dict[tuple[str, str], LoggedNorm], window: Window) -> None:
        """Note the logged norms of a step, by worker and name; not of several optimizers, of which it might be any."""
        norms: dict[str, dict[str, float]] = {}
        for reading in window.readings("value"):
            if "gradient_norms" in reading.collections:
                norms.setdefault(reading.worker, {})[reading.tensor] = reading.value
        for reading in logged(window):
            own = [size for name in _NORMS if 0 < (size := norms.get(reading.worker, {}).get(name, 0.0)) < math.inf]
            if role_in(reading.collections) != GRADIENT_NORM or not own or not 0 < reading.value < math.inf:
                continue
            norm = known.setdefault((reading.worker, reading.tensor), LoggedNorm())
            norm.has_agreed |= any(abs(reading.value - value) <= _TOLERANCE * value for value in own)
            norm.ratios.append(reading.value / own[-1])

    def remark(self, name: str) -> str:
        """Return the remark on a norm that never was that of the gradients; empty: none."""
        if self.has_agreed or len(self.ratios) < _MIN_STEPS:
            return ""
        least, most = min(self.ratios), max(self.ratios)
        is_constant = most - least <= _CONSTANT * most
        times = f"{significant(most)} times" if is_constant else f"{significant(least)} to {significant(most)} times"
        return (
            f"{name} was {times} the norm of the gradients at all {len(self.ratios):,} steps at which both are known: "
            "a sum or mean over steps, that of a part of the gradients, or of gradients that were not divided"
        )
