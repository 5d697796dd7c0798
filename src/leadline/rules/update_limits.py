"""What makes updates small: clipping, and a scale that gradients still had when they were clipped."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from leadline.analysis.advice import Advice
from leadline.records.formatting import share as percent
from leadline.records.formatting import significant
from leadline.records.needs import TensorNeed

if TYPE_CHECKING:
    from leadline.reader.window import Window

NEEDS: Final = (
    TensorNeed("gradient_norms", statistics=("value",), modes=("train",), is_optional=True),
    TensorNeed("hyperparameters", regex="GradScaler/scale$", statistics=("value",), modes=("train",), is_optional=True),
)
"""The needs of a rule that uses ``UpdateLimits``."""
_MUCH: Final = 100.0
"""How many times smaller clipping must make a gradient to be what limits the updates: two orders of magnitude."""
_MIN_SCALE: Final = 16.0
"""A smaller scale may be a factor that clipping has by chance."""
_BEFORE, _AFTER, _CLIPPED = "gradient_norm_before_clipping", "gradient_norm", "gradient_clipped"
_SCALED: Final = Advice(
    "{unscale}: {how}, at a scale of {scale}; usually gradients are clipped while they are still scaled, and divided "
    "by the scale afterwards",
    "how",
    "scale",
)
_LOW_LIMIT: Final = Advice(
    "a higher limit of the clipping, or none: {how}; usually the limit is far below what the gradients are", "how"
)


@dataclass(slots=True)
class UpdateLimits:
    """The clipping of a worker's gradients so far."""

    before: float = math.nan
    """The latest norm before clipping at a step at which that of the optimizer is known, too."""
    after: float = math.nan
    """The norm that the optimizer got at this step."""
    scale: float = 1.0
    """The latest scale of a gradient scaler."""
    clipped: int = 0
    steps: int = 0
    """The steps at which gradients were clipped, and at which it is known whether they were."""

    @staticmethod
    def note(by_worker: dict[str, UpdateLimits], window: Window) -> None:
        """Note the norms of a step, at which no gradient scaler skipped the update."""
        if window.is_skipped:
            return
        norms: dict[tuple[str, str], dict[str, float]] = {}
        for reading in window.readings("value"):
            optimizer, _, name = reading.tensor.rpartition("/")
            if "gradient_norms" in reading.collections:
                norms.setdefault((reading.worker, optimizer), {})[name] = reading.value
            elif reading.tensor.endswith("GradScaler/scale"):
                by_worker.setdefault(reading.worker, UpdateLimits()).scale = reading.value
        for (worker, _), found in norms.items():
            limits = by_worker.setdefault(worker, UpdateLimits())
            if _CLIPPED in found:
                limits.steps += 1
                limits.clipped += found[_CLIPPED] > 0.5
            before, after = found.get(_BEFORE, math.nan), found.get(_AFTER, math.nan)
            if 0 < after <= before < math.inf:
                limits.before, limits.after = before, after

    @property
    def is_clipping(self) -> bool:
        """Whether clipping makes the gradients of most steps smaller by orders of magnitude."""
        return 2 * self.clipped > self.steps and self.before > _MUCH * self.after

    def advice(self) -> Advice:
        """Return what to try where clipping is what limits the updates."""
        how = (
            f"gradients were clipped at {percent(self.clipped / max(self.steps, 1))} of the steps, and the norm fell "
            f"from {significant(self.before)} to {significant(self.after)}"
        )
        if self.scale >= _MIN_SCALE and self.before >= self.scale * self.after:
            return _SCALED.given(how=how, scale=significant(self.scale))
        return _LOW_LIMIT.given(how=how)
