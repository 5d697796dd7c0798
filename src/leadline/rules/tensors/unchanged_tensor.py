"""The rule unchanged_tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from leadline.rules import Advice, Fired, Needs, Rule, TensorReading, Undecided, Verdict, Window
from leadline.rules.booster_detection import is_from_booster
from leadline.rules.bounds import NonNegativeFloat
from leadline.rules.messages import clear_if_complete, fired
from leadline.rules.selection import check_selection, format_number, select

if TYPE_CHECKING:
    from leadline.reader.window import Earlier

_PARAMETER_ADVICE: Final = Advice(
    "checking that the optimizer holds this parameter and {is_trained}, or a higher learning rate; usually it is "
    "frozen, built after the optimizer, or its gradient is zero"
)
_BOOSTER_ADVICE: Final = Advice(
    "early_stopping_rounds, or a lower {min_gain} and min_child_weight; usually the trees find nothing more to split "
    "(labels are equal in every round, which is normal)"
)
_ADVICE: Final = Advice(
    "checking that the loader shuffles and the layer is called, and that no seed is set within the loop; usually every "
    "batch is the same, or this part of the model is unused"
)


class UnchangedTensor(Rule, frozen=True, kw_only=True):
    """Fires when a selected tensor has not changed over some saved steps.

    Why it matters:
        A weight that does not change is not trained, and a gradient or output that does not change is not computed
        from the data: a frozen parameter, a loader that always returns the same batch, a part that is never called.
    How it decides:
        A saved step is alike if ``abs(now - before) <= atol + rtol * abs(before)`` for every element, where
        ``before`` is the tensor at its previous saved step. Fires if the last ``num_steps`` saved steps are each
        like the one before: with ``num_steps`` 3 these are two comparisons.
    Not a number:
        NaN is not equal to anything, or with ``equal_nan`` equal to NaN; an infinity is equal to itself.
    Blind spots:
        For tensors beyond the memory limit on the device a sample of 4,096 elements is compared: sparse changes (of
        an embedding) may be missed. A small learning rate, as at the start of a warm-up, changes a weight by less
        than ``rtol`` from step to step: save less often, or lower ``rtol``. The previous step is the last one at which
        the tensor was saved for any purpose: a rule or option that saves it more often makes the intervals shorter.
    Args:
        collection_names: Collections whose tensors are evaluated, any of ``leadline.records.names.COLLECTIONS`` and
            those of modules (``relu_output``); these or ``tensor_regex`` must be set.
        tensor_regex: Regular expressions (``re.search``); tensors whose names match are evaluated as well.
        num_steps: Saved steps that must be alike, >= 2.
        rtol: Relative tolerance, >= 0, as ``numpy.allclose`` has it.
        atol: Absolute tolerance, >= 0, in the tensor's unit.
        equal_nan: Whether NaN counts as equal to NaN (true or false).
    Source:
        SageMaker developer guide, "UnchangedTensor".
    """

    collection_names: tuple[str, ...] | None = None
    tensor_regex: tuple[str, ...] | None = None
    num_steps: Annotated[int, msgspec.Meta(ge=2)] = 3
    rtol: NonNegativeFloat = 1e-5
    atol: NonNegativeFloat = 1e-8
    equal_nan: bool = False

    def check(self) -> None:
        check_selection(self.name, self.collection_names, self.tensor_regex, is_required=True)

    @property
    def _close(self) -> str:
        name = f"close_{format_number(self.rtol)}_{format_number(self.atol)}"
        return f"{name}_nan" if self.equal_nan else name

    def needs(self) -> Needs:
        statistics = (self._close, "value")
        return Needs(select(self.collection_names, self.tensor_regex, statistics, history=self.num_steps - 1))

    @property
    def least_observations(self) -> int:
        return self.num_steps

    def evaluate(self, window: Window) -> Verdict:
        is_judged = False
        bad = []
        for reading in (*window.readings(self._close), *window.readings("value")):
            alike = self._alike(reading, window.earlier(reading))
            is_judged = is_judged or alike is not None
            if alike:
                bad.append(reading)
        if bad:
            return self._fired(bad)
        if not is_judged:
            return Undecided(f"no selected tensor was saved {self.num_steps} times", stage="too few")
        return clear_if_complete(window, "selected tensors")

    def _alike(self, reading: TensorReading, earlier: Sequence[Earlier]) -> bool | None:
        """Return whether the last saved steps are alike; None if there are too few."""
        comparisons = self.num_steps - 1
        values = [*(before.value for before in earlier), reading.value]
        if reading.statistic == "value":
            pairs = list(pairwise(values))[-comparisons:]
            return None if len(pairs) < comparisons else all(self._is_close(*pair) for pair in pairs)
        shares = [share for share in values[-comparisons:] if not math.isnan(share)]
        return None if len(shares) < comparisons else all(share >= 1.0 for share in shares)

    def _is_close(self, before: float, now: float) -> bool:
        if math.isnan(before) or math.isnan(now):
            return self.equal_nan and math.isnan(before) and math.isnan(now)
        if math.isinf(before) or math.isinf(now):
            return before == now
        return abs(now - before) <= self.atol + self.rtol * abs(before)

    def _fired(self, bad: list[TensorReading]) -> Fired:
        first = bad[0]
        return fired(
            f"{first.tensor} has not changed over its last {self.num_steps} saved steps",
            *bad,
            advice=_suggestion(first),
            evidence={"saved_steps": self.num_steps, "rtol": self.rtol, "atol": self.atol},
            noun="tensor",
            count="tensors",
        )


def _suggestion(reading: TensorReading) -> Advice:
    if {"weights", "biases"} & set(reading.collections):
        return _PARAMETER_ADVICE
    if is_from_booster(reading):
        return _BOOSTER_ADVICE
    return _ADVICE
