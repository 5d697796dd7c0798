"""no_learning: unchanged bits, parameters outside any optimizer, learning rates of zero, and exceptions."""

from __future__ import annotations

import math

import pytest
from rule_scenarios import captured

from leadline.errors import ConfigurationError
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.tensors.no_learning import NoLearning
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts


def weight(step: int, checksum: float, gradient: float | None = 1.0, rate: float = 0.1) -> list[Capture]:
    tensors = {"a.weight": {"checksum": checksum}}
    if gradient is not None:
        tensors["gradient/a.weight"] = {"abs_max": gradient}
    return [captured(step, tensors), captured(step, {"SGD/lr": {"value": rate}})]


def judge(*parts: list[Capture], **parameters: int) -> list[Verdict]:
    return [verdict for _, verdict in verdicts(NoLearning(**parameters), [each for part in parts for each in part])]


def test_unchanged_bits_fire_once_the_steps_have_passed() -> None:
    assert [type(verdict) for verdict in judge(weight(0, 7.0), weight(10, 7.0), weight(19, 7.0))] == [Undecided] * 3
    results = judge(weight(0, 7.0), weight(10, 7.0), weight(20, 7.0))
    assert isinstance(results[-1], Fired)
    assert results[-1].message == "a.weight: the same bits at each of 3 captured steps (0 to 20), despite gradients"


def test_two_captures_are_too_few() -> None:
    few = Undecided("2 of 3 needed captures agree", stage="suspected")
    assert judge(weight(0, 7.0), weight(50, 7.0))[-1] == few
    assert judge(weight(0, 7.0), weight(50, 8.0))[-1] == Clear()
    assert judge(rate(0, 0.0), rate(50, 0.0))[-1] == few
    assert judge(weight(0, 7.0, rate=0.0), rate(50, 0.0), rate(60, 0.1))[-1] == Undecided("no weights were captured")


def rate(step: int, value: float) -> list[Capture]:
    return [captured(step, {"SGD/lr": {"value": value}})]


def test_a_higher_rate_is_advised_only_where_nothing_changes() -> None:
    def beside(step: int, checksum: float) -> list[Capture]:
        other = {"gradient/b.weight": {"abs_max": 1.0}, "b.weight": {"checksum": checksum}}
        return [*weight(step, 7.0), captured(step, other)]

    for changes, advice in ((False, "a ten times higher learning rate"), (True, "a look at the learning rate of its")):
        verdict = judge(*(beside(step, float(step * changes)) for step in (0, 10, 20)))[-1]
        assert isinstance(verdict, Fired)
        assert verdict.suggestion.startswith(advice)
        assert verdict.message.endswith("while others change") == changes


@pytest.mark.parametrize("gradient", [0.0, None, math.nan, math.inf])
def test_a_parameter_without_a_gradient_may_be_unchanged(gradient: float | None) -> None:
    results = judge(weight(0, 7.0), weight(20, 7.0, gradient), weight(30, 7.0))
    assert results[1:] == [Clear(), Clear()]


def test_a_gradient_of_rounding_errors_is_ignored() -> None:
    def beside(step: int, gradient: float) -> list[Capture]:
        largest = captured(step, {"gradient/b.weight": {"abs_max": 2.0}, "b.weight": {"checksum": float(step)}})
        return [*weight(step, 7.0, gradient), largest]

    assert not any(isinstance(verdict, Fired) for verdict in judge(*(beside(step, 2e-5) for step in (0, 10, 30))))
    assert isinstance(judge(*(beside(step, 2.1e-5) for step in (0, 10, 30)))[-1], Fired)


def test_a_change_resets_the_count() -> None:
    results = judge(weight(0, 7.0), weight(10, 8.0), weight(20, 8.0), weight(30, 8.0))
    assert [type(verdict) for verdict in results] == [Undecided, Undecided, Clear, Fired]


def test_a_parameter_may_be_unchanged_during_warm_up() -> None:
    results = judge(
        weight(0, 7.0, rate=0.0),
        weight(20, 7.0, rate=1e-9),
        weight(40, 7.0, rate=2e-9),
        weight(60, 7.0, rate=2e-9),
        weight(80, 7.0, rate=2e-9),
    )
    assert [type(verdict) for verdict in results] == [Undecided, Clear, Clear, Undecided, Fired]


def test_learning_rates_of_zero() -> None:
    fired = judge(*(rate(step, 0.0) for step in (0, 10, 20)))[-1]
    assert isinstance(fired, Fired)
    assert fired.evidence["kind"] == "rate"
    assert not any(
        isinstance(verdict, Fired) for verdict in judge(rate(0, 0.0), rate(19, 0.0), rate(20, 1e-9), rate(30, 0.0))
    )


def test_a_parameter_outside_any_optimizer() -> None:
    def outside(step: int, value: float) -> list[Capture]:
        return [captured(step, {"lost.weight/outside_optimizers": {"value": value}})]

    results = judge(outside(0, 1.0), outside(4, 1.0), outside(5, 1.0))
    assert [isinstance(verdict, Fired) for verdict in results] == [False, False, True]
    assert (
        results[-1].message == "lost.weight: gradients at each of 3 captured steps (0 to 5), but no optimizer holds it"
    )
    assert not isinstance(judge(outside(0, 1.0), outside(10, 0.0), outside(20, 1.0))[-1], Fired)


def left_alone(step: int, checksum: float, is_frozen: float, *, changes: bool = True) -> list[Capture]:
    """Return a parameter that its optimizer may freeze, beside one that may change."""
    other = {"gradient/b.weight": {"abs_max": 1.0}, "b.weight": {"checksum": float(step * changes)}}
    name = "a.weight/frozen_by_optimizer"
    frozen = Capture(step, {name: {"value": is_frozen}}, infos={name: TensorInfo(name, ("checks",), ())})
    return [*weight(step, checksum), captured(step, other), frozen]


def test_a_parameter_that_its_optimizer_freezes_may_be_unchanged() -> None:
    assert [type(each) for each in judge(*(left_alone(step, 7.0, 1.0) for step in (0, 20, 40)))][1:] == [Clear, Clear]
    fired = judge(*(left_alone(step, 7.0, 0.0) for step in (0, 10, 20)))[-1]
    assert isinstance(fired, Fired)
    assert fired.tensors == ("a.weight",)


def test_a_parameter_that_is_not_frozen_is_reported_beside_one_that_is() -> None:
    fired = judge(*(left_alone(step, 7.0, 1.0, changes=False) for step in (0, 10, 20)))[-1]
    assert isinstance(fired, Fired)
    assert fired.tensors == ("b.weight",)


def test_a_parameter_is_followed_from_when_it_is_no_longer_frozen() -> None:
    parts = [left_alone(0, 7.0, 1.0), left_alone(20, 7.0, 1.0), *(left_alone(at, 7.0, 0.0) for at in (30, 40, 50))]
    assert [type(each) for each in judge(*parts)][1:] == [Clear, Clear, Clear, Fired]


def test_a_model_that_is_frozen_as_a_whole() -> None:
    def frozen(step: int) -> list[Capture]:
        name = "sequential/frozen_parameters"
        return [Capture(step, {name: {"value": 4.0}}, infos={name: TensorInfo(name, ("checks",), ())})]

    assert not isinstance(judge(frozen(0), frozen(4))[-1], Fired)
    fired = judge(frozen(0), frozen(2), frozen(5))[-1]
    assert isinstance(fired, Fired)
    assert fired.message == "sequential: none of its parameters is trainable, so that no step changes it"
    assert fired.since_step == 0


def test_clear_is_undecided_with_incomplete_data() -> None:
    parts = [*weight(0, 7.0), *weight(30, 8.0)]
    assert isinstance(verdicts(NoLearning(), parts, is_incomplete=True)[-1][1], Undecided)


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="no_learning: steps must be"):
        NoLearning(steps=0)


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("frozen_adapters", "Model: none of its 4 adapter weights (lora) requires a gradient"),
        ("adapters_outside_optimizers", "Model: no optimizer holds any of its 4 adapter weights (lora)"),
    ],
)
def test_adapters_that_nothing_updates_fire_at_once_if_they_are_all(check: str, words: str) -> None:
    def at_first(count: float) -> list[Capture]:
        values = {"Model/adapters": 4.0, f"Model/{check}": count}
        infos = {name: TensorInfo(name, ("checks",), ()) for name in values}
        return [Capture(0, {name: {"value": value} for name, value in values.items()}, infos=infos)]

    (fired,) = judge(at_first(4.0))
    assert isinstance(fired, Fired)
    assert fired.message.startswith(words)
    assert "; usually " in fired.suggestion
    for some in (0.0, 3.0):  # of several adapters some may rest
        assert not isinstance(judge(at_first(some))[-1], Fired)
