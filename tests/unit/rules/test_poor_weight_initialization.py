"""poor_weight_initialization: three conditions, in the first steps only."""

from __future__ import annotations

import math

import pytest

from leadline.errors import ConfigurationError
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.tensors.poor_weight_initialization import PoorWeightInitialization
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts


def judge(
    values: dict[str, dict[str, float]], steps: int = 3, shape: tuple[int, ...] = (10, 10), **parameters: object
) -> list[Verdict]:
    """Return the verdicts on the same values at the first steps."""
    parts = [Capture(step, values) for step in range(steps)]
    results = verdicts(PoorWeightInitialization(**parameters), parts, shapes=dict.fromkeys(values, shape))
    return [verdict for _, verdict in results]


def inputs(*variances: float) -> dict[str, dict[str, float]]:
    return {f"act{index}.relu_input_0": {"variance": value} for index, value in enumerate(variances)}


def gradients(*ranges: tuple[float, float]) -> dict[str, dict[str, float]]:
    return {f"gradient/{index}.weight": {"p5": low, "p95": high} for index, (low, high) in enumerate(ranges)}


def test_fires_if_variances_differ_more_than_tenfold_from_layer_to_layer() -> None:
    assert judge(inputs(10.0, 1.0))[-1] == Clear()
    assert judge(inputs(36.0, 6.0, 1.0))[-1] == Clear()
    results = judge(inputs(math.nextafter(100.0, 101), 9.9, 1.0))
    assert [type(verdict) for verdict in results] == [Clear, Clear, Fired]
    assert results[-1].tensors == ("act0.relu_input_0", "act2.relu_input_0")
    assert isinstance(judge(inputs(1.0, 0.0))[-1], Fired)


def test_one_layer_or_nothing_finite_is_undecided() -> None:
    for values in (inputs(5.0), inputs(math.nan, 1.0), inputs(math.inf, math.inf)):
        assert isinstance(judge(values)[-1], Undecided)


def test_gradients_must_vary() -> None:
    assert judge(gradients((0.0, 1e-6), (0.0, 1.0)))[-1] == Clear()
    results = judge(gradients((0.0, 9e-7), (0.0, 1.0)))
    assert [type(verdict) for verdict in results] == [Clear, Clear, Fired]
    assert results[-1].message == (
        "0.weight: the 5th and 95th percentile of its gradient are 9e-7 apart, those of another one 1"
    )
    assert isinstance(judge(gradients((math.nan, 1.0)))[-1], Undecided)


@pytest.mark.parametrize(
    ("values", "shape"),
    [
        pytest.param(gradients((-1e-5, 1e-5), (-1e-4, 1e-4)), (10, 10), id="a mean over a large batch"),
        pytest.param(gradients((0.0, 0.0), (0.0, 1.0)), (10, 10), id="an embedding of which few rows are used"),
        pytest.param(gradients((0.0, 1e-9), (0.0, 1.0)), (1,), id="a bias of one"),
        pytest.param(gradients((0.0, 1e-9), (0.0, 1.0)), (), id="a scale"),
    ],
)
def test_healthy_gradients_are_clear(values: dict[str, dict[str, float]], shape: tuple[int, ...]) -> None:
    assert not any(isinstance(verdict, Fired) for verdict in judge(values, shape=shape))


def risen(*values: float, **others: float) -> list[str]:
    parts = [Capture(step, {"loss": {"value": value}}) for step, value in enumerate(values)]
    parts += [Capture(step, {"aux_loss": {"value": value}}) for step, value in enumerate(others.values())]
    return [type(verdict).__name__ for _, verdict in verdicts(PoorWeightInitialization(patience=3), parts)]


def test_a_loss_must_not_double() -> None:
    assert risen(1.0, 3.0, 3.0, math.nan, 2.1) == ["Clear", "Clear", "Clear", "Undecided", "Fired"]
    assert risen(1.0, 2.0, 2.0, 2.0, 2.0)[-1] == "Clear"
    assert risen(1.0, 3.0, 3.0, 3.0, a=1.0, b=1.0, c=1.0, d=1.0)[-1] == "Clear"


def test_only_the_first_steps_are_captured() -> None:
    assert len(judge(inputs(100.0, 1.0), steps=20)) == 10
    assert {need.end for need in PoorWeightInitialization(steps=7).needs().tensors} == {7}


def test_other_activations_can_be_selected() -> None:
    assert judge(inputs(100.0, 1.0), activation_inputs_regex=".*tanh_input") == []
    values = {"a.tanh_input_0": {"variance": 1.0}, "b.tanh_input_0": {"variance": 50.0}}
    assert isinstance(judge(values, activation_inputs_regex=".*tanh_input")[-1], Fired)


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="activation_inputs_regex '\\(' is not a valid regular expression"):
        PoorWeightInitialization(activation_inputs_regex="(")
    with pytest.raises(ConfigurationError, match="steps must be an integer >= 1, not 0"):
        PoorWeightInitialization(steps=0)
