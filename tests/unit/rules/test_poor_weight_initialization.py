"""poor_weight_initialization: three conditions, in the first steps only."""

from __future__ import annotations

import math

import pytest

from leadline.errors import ConfigurationError
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.tensors.poor_weight_initialization import PoorWeightInitialization
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts


def judge(values: dict[str, dict[str, float]], step: int = 0, **parameters: object) -> list[Verdict]:
    results = verdicts(PoorWeightInitialization(**parameters), [Capture(step, values)])
    return [verdict for _, verdict in results]


def inputs(*variances: float) -> dict[str, dict[str, float]]:
    return {f"act{index}.relu_input_0": {"variance": value} for index, value in enumerate(variances)}


def test_fires_if_variances_of_layers_differ_more_than_tenfold() -> None:
    assert judge(inputs(10.0, 1.0)) == [Clear()]
    (fired,) = judge(inputs(math.nextafter(10.0, 11), 5.0, 1.0))
    assert isinstance(fired, Fired)
    assert fired.tensors == ("act0.relu_input_0", "act2.relu_input_0")
    assert isinstance(judge(inputs(1.0, 0.0))[0], Fired)


def test_one_layer_or_nothing_finite_is_undecided() -> None:
    for values in (inputs(5.0), inputs(math.nan, 1.0), inputs(math.inf, math.inf)):
        assert isinstance(judge(values)[0], Undecided)


def test_gradients_must_vary() -> None:
    def gradient(low: float, high: float) -> dict[str, dict[str, float]]:
        return {"gradient/fc.weight": {"p5": low, "p95": high}}

    assert judge(gradient(0.0, 0.001)) == [Clear()]
    (fired,) = judge(gradient(0.0, math.nextafter(0.001, 0)))
    assert isinstance(fired, Fired)
    assert fired.message == "fc.weight: the 5th and 95th percentile of its gradient are 0.001 apart, less than 0.001"
    assert isinstance(judge(gradient(math.nan, 1.0))[0], Undecided)


def test_a_loss_must_fall() -> None:
    parts = [Capture(step, {"loss": {"value": value}}) for step, value in enumerate([1.0, 1.0, 2.0, math.nan, 1.0])]
    results = [type(verdict).__name__ for _, verdict in verdicts(PoorWeightInitialization(patience=3), parts)]
    assert results == ["Clear", "Clear", "Clear", "Undecided", "Fired"]


def test_only_the_first_steps_are_captured() -> None:
    assert judge(inputs(100.0, 1.0), step=10) == []
    assert isinstance(judge(inputs(100.0, 1.0), step=9)[0], Fired)
    assert {need.end for need in PoorWeightInitialization(steps=7).needs().tensors} == {7}


def test_other_activations_can_be_selected() -> None:
    assert judge(inputs(100.0, 1.0), activation_inputs_regex=".*tanh_input") == []
    values = {"a.tanh_input_0": {"variance": 1.0}, "b.tanh_input_0": {"variance": 50.0}}
    assert isinstance(judge(values, activation_inputs_regex=".*tanh_input")[0], Fired)


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="activation_inputs_regex '\\(' is not a valid regular expression"):
        PoorWeightInitialization(activation_inputs_regex="(")
    with pytest.raises(ConfigurationError, match="steps must be an integer >= 1, not 0"):
        PoorWeightInitialization(steps=0)
