"""The rule skipped_steps."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.formatting import significant
from leadline.rules import Advice, Clear, Needs, NotApplicable, Rule, TensorNeed, Undecided, Verdict, Window
from leadline.rules.booster_detection import is_from_booster
from leadline.rules.bounds import PositiveInt
from leadline.rules.messages import fired, too_few

_SCALE: Final = r"(^|/)scale$"
_WARM_UP: Final = "no training step without a skip yet"
_ADVICE: Final = Advice(
    "bfloat16 in place of float16 (it needs no scaler), or a lower learning rate; usually gradients overflow half "
    "precision, or the loss itself is not finite"
)


@dataclass(slots=True)
class _SkippedSteps:
    """The training steps so far."""

    latest: deque[bool]
    """Whether the scaler skipped the step, for the last steps after warm-up."""
    steps: int = 0
    has_settled: bool = False
    """Whether warm-up has ended: a step was not skipped, or ``window`` steps passed."""


class SkippedSteps(Rule, frozen=True, kw_only=True):
    """Fires when a gradient scaler skips many steps, or its scale has fallen below 1.

    Why it matters:
        A skipped step costs time and changes nothing. A few are normal while the scaler finds its scale; many mean
        that gradients overflow half precision again and again, and a scale below 1 that they overflow without any
        scaling.
    How it decides:
        Fires if ``skipped steps / window > share``, of the last ``window`` captured training steps; the steps
        before the first one without a skip (at most ``window``) are warm-up and do not count. Also fires if the
        captured scale is below 1. Undecided while there are fewer steps, and more than ``share`` of them were skipped.
    Not a number:
        A scale that is NaN is not evaluated.
    Blind spots:
        A step counts if its loss was captured, so with a preset that captures losses at intervals it is a sample.
        Only the scaler of PyTorch is detected. Without a scaler no step is skipped: clear.
    Args:
        share: Share of steps, > 0 and < 1.
        window: Training steps, >= 1.
    Source:
        Ours; ``torch.amp.GradScaler``.
    """

    explains: ClassVar[tuple[str, ...]] = ("loss_not_decreasing", "learning_rate", "metric_not_improving")

    share: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.1
    window: PositiveInt = 100

    def needs(self) -> Needs:
        return Needs(
            (
                TensorNeed("losses", statistics=("value",), modes=("train",)),
                TensorNeed("hyperparameters", regex=_SCALE, statistics=("value",), modes=("train",)),
            )
        )

    @property
    def least_observations(self) -> int:
        return int(self.share * self.window) + 1

    def remember(self, memory: Any, window: Window) -> _SkippedSteps:
        known: _SkippedSteps = memory or _SkippedSteps(deque(maxlen=self.window))
        if any("losses" in reading.collections for reading in window.readings("value")):
            known.steps += 1
            known.has_settled |= not window.is_skipped or known.steps > self.window
            if known.has_settled:
                known.latest.append(window.is_skipped)
        return known

    def evaluate(self, window: Window) -> Verdict:
        readings = window.readings("value")
        for reading in readings:
            if "hyperparameters" in reading.collections and reading.value < 1.0:
                message = f"{reading.tensor} has fallen to {significant(reading.value)}"
                return fired(message, reading, advice=_ADVICE, evidence={"scale": reading.value})
        latest = window.memory.latest
        skipped = sum(latest)
        if skipped / self.window > self.share:
            message = f"{skipped:,} of the last {self.window:,} training steps were skipped"
            evidence = {"skipped": skipped, "window": self.window, "share": self.share}
            return fired(message, advice=_ADVICE, evidence=evidence)
        if any(map(is_from_booster, readings)):
            return NotApplicable("boosted trees have no gradient scaler")
        if len(latest) < self.least_observations:
            return too_few(len(latest), self.least_observations, "training steps") if latest else Undecided(_WARM_UP)
        if skipped / len(latest) > self.share:
            return Undecided(f"{skipped:,} of {len(latest):,} training steps were skipped", stage="suspected")
        return Clear()
