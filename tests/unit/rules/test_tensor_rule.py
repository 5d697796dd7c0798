"""A rule that tests each tensor by itself says the same as all others where it can test nothing, or not everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pytest

from leadline.records.series import TensorInfo
from leadline.rules import Advice, Clear, Fired, Needs, TensorReading, TensorRule, Undecided, Window, fired
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts

ADVICE = Advice("a smaller weight; usually it is too large")


class Large(TensorRule[TensorReading], frozen=True, kw_only=True):
    """Fires when a weight is above 1."""

    data: ClassVar[str] = "weights"
    untested: ClassVar[str] = "no weight was finite"

    def needs(self) -> Needs:
        return Needs.of("weights", "abs_max")

    def find(self, window: Window) -> list[TensorReading] | None:
        finite = window.readings("abs_max", where=lambda values: values < float("inf"))
        return [reading for reading in finite if reading.value > 1] if finite else None

    def finding(self, bad: Sequence[TensorReading]) -> Fired:
        return fired(f"{bad[0].tensor} is large", *bad, advice=ADVICE, noun="weight")


@pytest.mark.parametrize(
    ("values", "message"),
    [((2.0, 3.0), "w0 is large, and 1 more weight"), ((0.5, 3.0), "w1 is large"), ((0.5, 0.5), None)],
)
def test_a_step_is_judged_by_its_tensors(values: tuple[float, float], message: str | None) -> None:
    ((_, verdict),) = verdicts(Large(), [_capture(*values)])
    assert verdict == Clear() if message is None else isinstance(verdict, Fired) and verdict.message == message


def test_what_cannot_be_tested_is_undecided_with_the_reason() -> None:
    ((_, verdict),) = verdicts(Large(), [_capture(float("inf"), float("nan"))])
    assert verdict == Undecided("no weight was finite")


def test_a_step_of_which_a_part_was_dropped_is_not_clear() -> None:
    window = Window(0, "train", 0, is_incomplete=True)
    assert Quiet().evaluate(window) == Undecided("weights incomplete at this step (dropped)")


class Quiet(Large, frozen=True, kw_only=True):
    def find(self, window: Window) -> list[TensorReading] | None:
        return []


def _capture(*values: float) -> Capture:
    captured = {f"w{index}": {"abs_max": value} for index, value in enumerate(values)}
    return Capture(0, captured, infos={name: TensorInfo(name, ("weights",), (4,)) for name in captured})
