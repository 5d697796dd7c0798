"""The rule skipped_steps."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule

if TYPE_CHECKING:
    from leadline.reader.window import Window

_SCALE: Final = r"(^|/)scale$"


@dataclass(slots=True)
class _Skips:
    """The training steps so far."""

    latest: deque[bool]
    """Of each of the last steps after warm-up, whether the scaler skipped it."""
    steps: int = 0
    has_settled: bool = False
    """Whether warm-up is over: a step was made, or ``window`` steps passed."""


class SkippedSteps(Rule, frozen=True, kw_only=True):
    """Fires when a gradient scaler skips many steps, or its scale has fallen below 1.

    Why it matters:
        A skipped step is paid for and changes nothing. A few are how the scaler finds its scale; many say that
        gradients overflow half precision again and again, and a scale below 1 that they do without any scaling.
    How it decides:
        ``skipped steps / window > share``, of the last ``window`` captured training steps; the steps before the first
        that was not skipped (at most ``window``) are warm-up, and do not count. Or the captured scale is below 1.
    Not a number:
        A scale that is NaN is not judged.
    Blind spots:
        A step counts where its loss was captured, so with a preset that captures losses now and then it is a sample.
        Scalers other than PyTorch's are not seen. Without any scaler no step is skipped: clear.
    Args:
        share: Share of steps, > 0 and < 1.
        window: Training steps, >= 1.
    Source:
        Ours; ``torch.amp.GradScaler``.
    """

    explains: ClassVar[tuple[str, ...]] = ("loss_not_decreasing", "learning_rate", "metric_not_improving")

    share: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.1
    window: Annotated[int, msgspec.Meta(ge=1)] = 100

    def needs(self) -> Needs:
        return Needs(
            (
                TensorNeed("losses", statistics=("value",), modes=("train",)),
                TensorNeed("hyperparameters", regex=_SCALE, statistics=("value",), modes=("train",)),
            )
        )

    def remember(self, memory: Any, window: Window) -> _Skips:
        skips: _Skips = memory or _Skips(deque(maxlen=self.window))
        if any("losses" in each.collections for each in window.readings("value")):
            skips.steps += 1
            skips.has_settled |= not window.is_skipped or skips.steps > self.window
            if skips.has_settled:
                skips.latest.append(window.is_skipped)
        return skips

    def evaluate(self, window: Window) -> Verdict:
        readings = window.readings("value")
        for each in readings:
            if "hyperparameters" in each.collections and each.value < 1.0:
                return self._fired(
                    f"{each.tensor} has fallen to {each.value:.3g}",
                    each.worker,
                    (each.tensor,),
                    {"scale": each.value},
                )
        skipped = sum(window.memory.latest)
        if skipped / self.window > self.share:
            said = f"{skipped:,} of the last {self.window:,} training steps were skipped"
            return self._fired(said, None, (), {"skipped": skipped, "window": self.window, "share": self.share})
        return Clear() if window.memory.latest else Undecided("no training step was made yet")

    def _fired(self, said: str, worker: str | None, tensors: tuple[str, ...], evidence: dict[str, float]) -> Fired:
        return Fired(
            said,
            tensors=tensors,
            evidence=evidence,
            worker=worker,
            suggestion="bfloat16 in place of float16 (it needs no scaler), or a lower learning rate; "
            "usually gradients overflow half precision, or the loss is not finite by itself",
        )
