"""learning_rate: the median ratio of all parameters, both bounds, and the patience."""

from __future__ import annotations

import math

import pytest
from rule_scenarios import captured

from leadline.errors import ConfigurationError
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.losses.learning_rate import LearningRate
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts


def judge(*ratios: float, other: float = math.nan, **settings: bool) -> list[Verdict]:
    parts = [
        captured(step, {"a.weight": {"update_ratio": value}, "b.bias": {"update_ratio": other}})
        for step, value in enumerate(ratios)
    ]
    return [verdict for _, verdict in verdicts(LearningRate(), parts, **settings)]


def test_fires_at_the_tenth_in_a_row_on_either_side() -> None:
    results = judge(*[0.5] * 9, 0.01, *[0.5] * 10)
    assert [type(value) for value in results] == [Undecided] * 9 + [Clear] * 10 + [Fired]
    assert results[-1].message.startswith("median update ratio 0.5, above 0.1 for 10 captured steps in a row")
    assert "lower by a factor of about 1,000" in results[-1].suggestion
    low = judge(*[1e-7] * 10)[-1]
    assert isinstance(low, Fired)
    assert "higher by a factor of about 10,000" in low.suggestion
    vanishing = judge(*[1e-9] * 10)[-1]
    assert isinstance(vanishing, Fired)
    assert "gradient norms" in vanishing.suggestion


def test_clear_exactly_on_both_bounds() -> None:
    assert judge(*[0.1] * 10)[-1] == judge(*[1e-6] * 10)[-1] == Clear()


def test_the_median_is_over_parameters_that_have_a_ratio() -> None:
    assert judge(*[0.5] * 10, other=0.0)[-1].evidence["median_update_ratio"] == 0.25
    assert isinstance(judge(*[0.5] * 10, other=math.inf)[-1], Fired)
    assert all(isinstance(value, Undecided) for value in judge(*[math.nan] * 12))


def test_steps_without_any_update_are_no_low_rate() -> None:
    assert all(isinstance(value, Undecided) for value in judge(*[0.0] * 12))
    assert judge(*[1e-3] * 10, *[0.0] * 10)[-1] == judge(*[0.0] * 10)[-1]


def faded(*rates: float, losses: tuple[float, ...] = ()) -> list[Verdict]:
    infos = {"SGD/lr": TensorInfo("SGD/lr", ("hyperparameters",), ()), "loss": TensorInfo("loss", ("losses",), ())}
    parts = [
        Capture(
            step,
            {"SGD/lr": {"value": rate}} | ({"loss": {"value": losses[min(step, len(losses) - 1)]}} if losses else {}),
            infos=infos,
        )
        for step, rate in enumerate(rates)
    ]
    return [verdict for _, verdict in verdicts(LearningRate(), parts)]


def test_a_rate_that_is_hardly_any_for_most_of_the_training() -> None:
    found = faded(*[0.1] * 30, *[4e-5] * 40)
    assert [isinstance(verdict, Fired) for verdict in found] == [False] * 60 + [True] * 10
    assert found[60].message.startswith("the learning rate fell from 0.1 to 4e-05: below 0.0005 of its largest value")
    assert found[60].since_step == 30


@pytest.mark.parametrize(
    "rates",
    [
        pytest.param([0.1 * 0.98**step for step in range(300)], id="a slow decay"),
        pytest.param([0.05 * (1 + math.cos(math.pi * step / 299)) for step in range(300)], id="a cosine"),
        pytest.param([1e-6 * (step + 1) for step in range(300)], id="a warm-up"),
        pytest.param([0.1] * 100 + [5e-5] * 300, id="exactly on the bound"),
        pytest.param([0.1, *[1e-9] * 20], id="too few steps"),
        pytest.param([0.1, *[1e-9] * 15, 0.1] * 9, id="restarts"),
    ],
)
def test_other_schedules_are_not_over(rates: list[float]) -> None:
    assert not any(isinstance(verdict, Fired) for verdict in faded(*rates))


def test_a_training_that_has_converged_needs_no_rate() -> None:
    assert not any(isinstance(verdict, Fired) for verdict in faded(0.1, *[1e-9] * 99, losses=(2.0, 1e-3)))
    assert isinstance(faded(0.1, *[1e-9] * 99, losses=(2.0, 1.0))[-1], Fired)


def test_small_updates_at_the_end_of_a_schedule_are_no_low_rate() -> None:
    infos = {"SGD/lr": TensorInfo("SGD/lr", ("hyperparameters",), ())}
    late = [Capture(step, {"SGD/lr": {"value": 0.1 if step < 50 else 9e-4}}, infos=infos) for step in range(70)]
    ratios = [captured(step, {"a.weight": {"update_ratio": 1e-3 if step < 50 else 1e-7}}) for step in range(70)]
    parts = [part for pair in zip(late, ratios, strict=True) for part in pair]
    assert not any(isinstance(verdict, Fired) for _, verdict in verdicts(LearningRate(), parts))
    assert isinstance(verdicts(LearningRate(), ratios)[-1][1], Fired)


def test_clear_is_undecided_with_incomplete_data() -> None:
    assert isinstance(judge(*[1e-3] * 10, is_incomplete=True)[-1], Undecided)


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match=r"learning_rate: low \(0.1\) must be below high \(0.1\)"):
        LearningRate(low=0.1)
    for name, value in (("low", -1.0), ("high", 0.0), ("patience", 0)):
        with pytest.raises(ConfigurationError, match=f"learning_rate: {name} must be"):
            LearningRate(**{name: value})


def test_a_usual_ratio_is_clear_at_the_third_capture() -> None:
    assert [type(value) for value in judge(1e-3, 1e-3, 1e-3, 1e-3)] == [Undecided, Undecided, Clear, Clear]
    assert judge(0.5, 0.5, 0.5)[-1] == Undecided("3 of 10 needed captures agree", stage="suspected")
    assert [type(value) for value in judge(0.5, 0.5, 0.5, 1e-3)] == [Undecided] * 3 + [Clear]
