"""skipped_steps: share of a window, warm-up, and the scale."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest
from rule_scenarios import captured, skipped

from leadline.errors import ConfigurationError
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.tensors.skipped_steps import SkippedSteps
from leadline.testing.windows import verdicts


def judge(count: int, skips: Iterable[int], **parameters: float) -> list[Verdict]:
    parts = [captured(step, {"loss": {"value": 1.0}}) for step in range(count)]
    return [verdict for _, verdict in verdicts(SkippedSteps(**parameters), [*parts, *map(skipped, skips)])]


def test_clear_exactly_on_its_share() -> None:
    assert judge(200, range(50, 60))[-1] == Clear()
    results = judge(200, range(50, 61))
    assert isinstance(results[60], Fired)
    assert results[60].message == "11 of the last 100 training steps were skipped"
    assert results[-1] == Clear()


def test_skips_during_warm_up_are_ignored() -> None:
    results = judge(60, range(15))
    assert [type(verdict) for verdict in results] == [Undecided] * 25 + [Clear] * 35
    assert results[20] == Undecided("6 of 11 training steps needed", stage="too few")


def test_many_skips_among_few_steps_are_suspected() -> None:
    results = judge(20, range(10, 15))
    assert [type(verdict) for verdict in results[12:]] == [Undecided] * 8
    assert results[-1] == Undecided("5 of 20 training steps were skipped", stage="suspected")
    assert judge(60, range(10, 15))[-1] == Clear()


def test_a_scaler_that_never_settles_is_found() -> None:
    results = judge(130, range(130))
    assert isinstance(results[99], Undecided)
    assert isinstance(results[-1], Fired)


@pytest.mark.parametrize(("scale", "fires"), [(1.0, False), (0.5, True), (math.nan, False)])
def test_the_scale(scale: float, fires: bool) -> None:
    parts = [captured(step, {"loss": {"value": 1.0}}) for step in range(20)]
    parts.append(captured(19, {"GradScaler/scale": {"value": scale}}))
    assert isinstance(verdicts(SkippedSteps(), parts)[-1][1], Fired if fires else Clear)


def test_without_a_loss_nothing_is_counted() -> None:
    assert isinstance(verdicts(SkippedSteps(), [captured(0, {"GradScaler/scale": {"value": 8.0}})])[0][1], Undecided)


@pytest.mark.parametrize(("name", "value"), [("share", 0.0), ("share", 1.0), ("window", 0)])
def test_invalid_parameters_are_rejected(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=f"skipped_steps: {name} must be"):
        SkippedSteps(**{name: value})
