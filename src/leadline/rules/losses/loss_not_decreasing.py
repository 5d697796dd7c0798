"""The rule loss_not_decreasing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal

from leadline.errors import ConfigurationError
from leadline.records.formatting import significant
from leadline.rules import Advice, Clear, Fired, Needs, Rule, TensorReading, Undecided, Verdict, Window
from leadline.rules.bounds import NonNegativeFloat, PositiveInt
from leadline.rules.messages import fired
from leadline.rules.selection import check_selection, select

if TYPE_CHECKING:
    from leadline.reader.window import Earlier

_PREFERRED = ("eval", "train", "global")
_ADVICE: Final = Advice(
    "half the learning rate or a schedule, and a larger num_steps to see past the noise; usually the rate is too high "
    "(late in training: not lowered), or small batches are noisy"
)


class LossNotDecreasing(Rule, frozen=True, kw_only=True):
    """Fires when a loss falls too little, or rises too much, from one comparison to the next.

    Why it matters:
        Training on after a loss has stopped falling only costs money; a rising loss means that the learning rate,
        the data or the gradients are wrong.
    How it decides:
        A loss is compared when ``num_steps`` steps have passed since its last comparison (counted from just before
        its first saved step), with the latest saved value at least ``num_steps`` earlier: ``change = (now - before)
        / abs(before) * 100``. It fires if the loss fell by less than ``diff_percent`` (``-change < diff_percent``)
        or rose by more than ``increase_threshold_percent`` (``change > increase_threshold_percent``). A loss saved
        at steps 0, 3, 6, … with ``num_steps`` 10 is compared at step 21 with step 9, then at 33 with 21. Steps are
        those of the mode.
    Not a number:
        A NaN or infinite loss is not evaluated (see ``exploding_tensor``): undecided. A change from exactly 0 is an
        infinite percentage.
    Blind spots:
        Single losses are compared, not trends: on noisy losses (small batches) it fires at about one in three
        comparisons of a healthy run. Raise ``num_steps``, or save the loss of a validation set. A loss that falls
        by less than ``diff_percent`` fires even if it rose by less than ``increase_threshold_percent``, so the
        second threshold affects only the message; both are SageMaker's.
    Args:
        collection_names: Collections of scalars that are evaluated as well.
        tensor_regex: Regular expressions (``re.search``); scalars whose names match are evaluated as well.
        use_losses_collection: Whether the collection ``losses`` is evaluated (true or false).
        num_steps: Steps between comparisons, and at least between the compared values, >= 1.
        diff_percent: Smallest fall, in percent of the earlier loss, >= 0.
        increase_threshold_percent: Largest rise, in percent of the earlier loss, >= 0.
        mode: Evaluate only this mode; ``global``: all modes, by the global step; none: ``eval`` if there is any,
            else ``train``, else ``global``.
    Source:
        SageMaker developer guide, "LossNotDecreasing".
    """

    collection_names: tuple[str, ...] | None = None
    tensor_regex: tuple[str, ...] | None = None
    use_losses_collection: bool = True
    num_steps: PositiveInt = 10
    diff_percent: NonNegativeFloat = 0.1
    increase_threshold_percent: NonNegativeFloat = 5.0
    mode: Literal["train", "eval", "predict", "global"] | None = None

    def check(self) -> None:
        check_selection(self.name, self.collection_names, self.tensor_regex)
        if not (self.use_losses_collection or self.collection_names or self.tensor_regex):
            raise ConfigurationError(
                f"{self.name}: nothing is selected; "
                "give collection_names or tensor_regex, or use_losses_collection=true"
            )

    def needs(self) -> Needs:
        collections = (*(("losses",) if self.use_losses_collection else ()), *(self.collection_names or ()))
        modes = (self.mode,) if self.mode is not None else _PREFERRED
        selected = select(dict.fromkeys(collections), self.tensor_regex, ("value",), modes=modes, history=None)
        return Needs(selected)

    def evaluate(self, window: Window) -> Verdict:
        if self.mode is None and window.mode != next(mode for mode in _PREFERRED if mode in window.modes()):
            return Undecided(f"{window.mode} losses are not evaluated if a preferred mode has losses")
        compared = False
        for reading in window.readings("value"):
            check = window.comparison(reading, self.num_steps)
            if check is None or check.before is None:
                continue
            if not (math.isfinite(reading.value) and math.isfinite(check.before.value)):
                continue
            compared = True
            finding = self._judge(reading, check.before)
            if finding is not None:
                return finding
        return Clear() if compared else Undecided(f"no loss was captured {self.num_steps} steps before another")

    def _judge(self, reading: TensorReading, before: Earlier) -> Fired | None:
        change = change_percent(before.value, reading.value)
        rose = change > self.increase_threshold_percent
        if not rose and -change >= self.diff_percent:
            return None
        change_text = f"rose by {significant(change)} %" if change > 0 else f"fell by {significant(abs(change))} %"
        limit = self.increase_threshold_percent if rose else self.diff_percent
        step = "step" if reading.mode == "train" else f"{reading.mode} step"
        return fired(
            f"{reading.tensor} {change_text} from {step} {before.mode_step} to {reading.mode_step} "
            f"({significant(before.value)} to {significant(reading.value)})",
            reading,
            advice=_ADVICE,
            evidence={
                "before": before.value,
                "before_step": before.mode_step,
                "now": reading.value,
                "change_percent": change,
                "threshold_percent": limit,
            },
        )


def change_percent(before: float, now: float) -> float:
    """Return the relative change of a loss in percent.

    Shape:
        before, now, result: ``()``.
    Units:
        Percent; positive = the loss rose.
    Not a number:
        NaN in, NaN out; any change from exactly 0 is infinite.
    Source:
        SageMaker developer guide, "LossNotDecreasing".
    """
    if before == 0.0:
        return 0.0 if now == 0.0 else math.copysign(math.inf, now)
    return (now - before) / abs(before) * 100.0
