"""The rule unchanged_tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import msgspec

from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more, check_selection, select, spoken_number
from leadline.rules.trees.booster_detection import is_of_booster

if TYPE_CHECKING:
    from leadline.reader.window import Earlier, TensorReading, Window

_Tolerance = Annotated[float, msgspec.Meta(ge=0)]


class UnchangedTensor(Rule, frozen=True, kw_only=True):
    """Fires when a selected tensor has not changed over some saved steps.

    Why it matters:
        A weight that does not change is not trained, and a gradient or output that does not change is not computed
        from the data: a frozen parameter, a loader that gives the same batch, a part that nobody calls.
    How it decides:
        A saved step is alike when ``abs(now - before) <= atol + rtol * abs(before)`` for every element, ``before``
        being the tensor at its previous saved step. It fires when the last ``num_steps`` saved steps are alike, each
        like the one before it: with ``num_steps`` 3 that are two comparisons.
    Not a number:
        NaN is like nothing, or with ``equal_nan`` like NaN; an infinity is like itself.
    Blind spots:
        Of tensors beyond the memory that may be held on the device a sample of 4,096 elements is compared: sparse
        changes (of an embedding) may be missed. A small learning rate changes a weight by less than ``rtol`` from
        step to step: save less often, or lower ``rtol``. "Previous" is the last step at which the tensor was saved
        for anybody: a rule or option that saves it more often makes the steps shorter.
    Args:
        collection_names: Collections whose tensors are judged, any of ``leadline.records.names.COLLECTIONS`` and
            those of modules (``relu_output``); these or ``tensor_regex`` must be given.
        tensor_regex: Regular expressions (``re.search``); tensors whose names match are judged as well.
        num_steps: Saved steps that must be alike, >= 2.
        rtol: Relative tolerance, >= 0, as ``numpy.allclose`` has it.
        atol: Absolute tolerance, >= 0, in the tensor's unit.
        equal_nan: Whether NaN counts as like NaN (true or false).
    Source:
        SageMaker developer guide, "UnchangedTensor".
    """

    collection_names: tuple[str, ...] | None = None
    tensor_regex: tuple[str, ...] | None = None
    num_steps: Annotated[int, msgspec.Meta(ge=2)] = 3
    rtol: _Tolerance = 1e-5
    atol: _Tolerance = 1e-8
    equal_nan: bool = False

    def check(self) -> None:
        check_selection(self.name, self.collection_names, self.tensor_regex, is_required=True)

    @property
    def _close(self) -> str:
        name = f"close_{spoken_number(self.rtol)}_{spoken_number(self.atol)}"
        return f"{name}_nan" if self.equal_nan else name

    def needs(self) -> Needs:
        statistics = (self._close, "value")
        return Needs(select(self.collection_names, self.tensor_regex, statistics, history=self.num_steps - 1))

    def evaluate(self, window: Window) -> Verdict:
        known = False
        bad = []
        for each in (*window.readings(self._close), *window.readings("value")):
            alike = self._alike(each, window.earlier(each))
            known = known or alike is not None
            if alike:
                bad.append(each)
        if bad:
            return self._fired(bad)
        if not known:
            return Undecided(f"no selected tensor had been saved {self.num_steps} times by then")
        return Undecided("part of the selected tensors at this step was lost") if window.is_thinned else Clear()

    def _alike(self, reading: TensorReading, earlier: Sequence[Earlier]) -> bool | None:
        """Whether the last saved steps are alike; None: there are not so many."""
        comparisons = self.num_steps - 1
        values = [*(each.value for each in earlier), reading.value]
        if reading.statistic == "value":
            pairs = list(pairwise(values))[-comparisons:]
            return None if len(pairs) < comparisons else all(self._is_close(*each) for each in pairs)
        shares = [each for each in values[-comparisons:] if not math.isnan(each)]
        return None if len(shares) < comparisons else all(each >= 1.0 for each in shares)

    def _is_close(self, before: float, now: float) -> bool:
        if math.isnan(before) or math.isnan(now):
            return self.equal_nan and math.isnan(before) and math.isnan(now)
        if math.isinf(before) or math.isinf(now):
            return before == now
        return abs(now - before) <= self.atol + self.rtol * abs(before)

    def _fired(self, bad: list[TensorReading]) -> Fired:
        first = bad[0]
        tensors = tuple(dict.fromkeys(each.tensor for each in bad))
        return Fired(
            f"{first.tensor} has not changed over its last {self.num_steps} saved steps" + and_more(len(tensors) - 1),
            tensors=tensors,
            evidence={
                "saved_steps": self.num_steps,
                "rtol": self.rtol,
                "atol": self.atol,
                "tensors": len(tensors),
            },
            suggestion=_suggestion(first),
            worker=first.worker,
        )


def _suggestion(reading: TensorReading) -> str:
    if {"weights", "biases"} & set(reading.collections):
        return (
            "a look whether the optimizer was given this parameter and requires_grad is set, or a higher learning "
            "rate; usually it is frozen, built after the optimizer, or its gradient is zero"
        )
    if is_of_booster(reading):
        return (
            "early_stopping_rounds, or a lower gamma and min_child_weight; usually the trees find nothing more to "
            "split (labels are the same in every round: that is as it should be)"
        )
    return (
        "a look whether the loader shuffles and the layer is called, or a seed that is set within the loop; "
        "usually the same batch comes every time, or this part of the model is not used"
    )
