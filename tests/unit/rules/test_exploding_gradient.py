"""exploding_gradient: comparison with the median of earlier norms, and the choice of the norm."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from rule_scenarios import captured, skipped

from leadline.errors import ConfigurationError
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.tensors.exploding_gradient import ExplodingGradient
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts


def judge(values: Sequence[float], name: str = "gradient_norm", **parameters: float) -> list[Verdict]:
    parts = [captured(step, {name: {"value": value}}) for step, value in enumerate(values)]
    return [verdict for _, verdict in verdicts(ExplodingGradient(**parameters), parts)]


def test_fires_at_the_second_and_is_clear_on_its_bound() -> None:
    assert judge([1.0] * 30 + [10.0, 10.0])[-1] == Clear()
    results = judge([1.0] * 30 + [10.1, 1.0, 10.1])
    assert results[-2] == Clear()
    assert isinstance(results[-1], Fired)
    assert results[-1].message == "gradient_norm is 10.1, 10.1 times its median of 1, in 2 of the last 5 captured"


@pytest.mark.parametrize(("second", "expected"), [("mse_loss_output_0", Clear), ("cross_entropy_output_0", Fired)])
def test_a_second_phase_with_another_loss_is_not_compared_with_the_first(second: str, expected: type[Verdict]) -> None:
    norms = [1.0] * 30 + [50.0] * 12
    parts = []
    for step, norm in enumerate(norms):
        loss = "cross_entropy_output_0" if step < 30 else second
        infos = {loss: TensorInfo(loss, ("losses",), ())}
        parts.append(Capture(step, {loss: {"value": 1.0}}, infos=infos))
        parts.append(captured(step, {"gradient_norm": {"value": norm}}))
    results = [verdict for _, verdict in verdicts(ExplodingGradient(), parts)]
    assert any(isinstance(verdict, Fired) for verdict in results) == (expected is Fired)


def test_a_step_without_a_norm_is_no_observation() -> None:
    loss = Capture(0, {"loss": {"value": 1.0}}, infos={"loss": TensorInfo("loss", ("losses",), ())})
    assert verdicts(ExplodingGradient(), [loss])[-1][1] == Undecided("no gradient norm was captured at this step")


def test_noisy_norms_must_jump_higher() -> None:
    spread = [0.1, 1.0, 10.0] * 10
    assert judge([*spread, 1e3, 1e3])[-1] == Clear()
    assert isinstance(judge([*spread, 1e7, 1e7])[-1], Fired)


def test_two_high_norms_more_than_five_apart_are_ignored() -> None:
    results = judge([1.0] * 30 + [50.0, 1.0, 1.0, 1.0, 1.0, 50.0, 1.0, 1.0, 1.0, 1.0])
    assert not any(isinstance(verdict, Fired) for verdict in results)
    assert isinstance(judge([1.0] * 30 + [50.0, 1.0, 1.0, 1.0, 50.0])[-1], Fired)


def test_undecided_without_enough_earlier_values() -> None:
    results = judge([1.0] * 40)
    assert [isinstance(verdict, Undecided) for verdict in results] == [True] * 10 + [False] * 30
    assert results[3].why == "4 of 11 gradient norms needed"


def test_the_bound_is_higher_with_fewer_earlier_values() -> None:
    """Ten earlier norms in place of twenty: twice the bound."""
    for before, bound in ((6, 10 * 20 / 6), (10, 20.0), (20, 10.0), (30, 10.0)):
        calm = [1.0] * (before + 3)
        assert judge([*calm, bound, bound])[-1] == Clear()
        assert isinstance(judge([*calm, 1.001 * bound, 1.001 * bound])[-1], Fired)
    assert isinstance(judge([1.0] * 10 + [11.0, 11.0], window=5, warmup=5)[-1], Fired)


def test_nonfinite_values_are_not_counted() -> None:
    assert judge([1.0] * 30 + [math.nan, math.inf])[-1] == Clear()
    assert isinstance(judge([math.nan] * 40)[-1], Undecided)
    assert isinstance(judge([1.0, math.nan] * 30 + [50.0, 50.0])[-1], Fired)


def test_zero_gradients_are_undecided() -> None:
    assert isinstance(judge([0.0] * 40 + [1.0, 1.0])[-1], Undecided)


def clipped(step: int, norm: float, before: float) -> Capture:
    both = {"SGD/gradient_norm": norm, "SGD/gradient_norm_before_clipping": before}
    return captured(step, {name: {"value": value} for name, value in both.items()})


def test_the_norm_before_clipping_is_preferred() -> None:
    calm = [clipped(step, 1.0, 1.0) for step in range(30)]
    results = verdicts(ExplodingGradient(), [*calm, *(clipped(step, 1.0, 90.0) for step in range(30, 35))])
    assert isinstance(results[-1][1], Fired)
    assert results[-1][1].tensors == ("SGD/gradient_norm_before_clipping",)
    assert verdicts(ExplodingGradient(), [*calm, clipped(30, 90.0, 1.0), clipped(31, 90.0, 1.0)])[-1][1] == Clear()


def test_of_clipped_gradients_all_of_the_last_five_must_be_too_high() -> None:
    norms = [*[1.0] * 30, 90.0, 90.0, *[1.0] * 3, *[90.0] * 5]
    results = verdicts(ExplodingGradient(), [clipped(step, 1.0, norm) for step, norm in enumerate(norms)])
    assert [step for step, verdict in results if isinstance(verdict, Fired)] == [len(norms) - 1]
    assert "clip gradients" not in results[-1][1].suggestion


def test_the_clipped_flag_is_not_a_norm() -> None:
    assert isinstance(judge([0.0] * 40 + [1.0] * 5, name="SGD/gradient_clipped")[-1], Undecided)


def test_skipped_steps_are_not_evaluated() -> None:
    parts = [captured(step, {"gradient_norm": {"value": 1.0 if step < 30 else 99.0}}) for step in range(33)]
    results = dict(verdicts(ExplodingGradient(), [*parts, *(skipped(each) for each in (30, 31, 32))]))
    assert isinstance(results[32], Undecided)


@pytest.mark.parametrize(
    ("name", "value"),
    [("factor", 1.0), ("factor", math.nan), ("window", 0), ("patience", 0), ("patience", 6), ("warmup", 0)],
)
def test_invalid_parameters_are_rejected(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=f"exploding_gradient: {name} must be"):
        ExplodingGradient(**{name: value})


def test_a_norm_that_grows_while_early_steps_are_captured_densely_is_no_jump() -> None:
    """Norms of a generator, captured at steps 0 to 5 and every 10th one: it grows from 0.05 to 3 in 60 steps."""
    first = [0.054, 0.054, 0.057, 0.062, 0.07, 0.081]
    norms = [*first, 0.159, 0.199, 0.402, 0.667, 1.106, 2.163, 2.635, 3.502, 2.009, 2.517, 2.703, 2.469, 1.742]
    assert not any(isinstance(verdict, Fired) for verdict in judge(norms))
