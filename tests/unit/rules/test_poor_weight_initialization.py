"""poor_weight_initialization: three signs, in the first steps only."""

from __future__ import annotations

import math

import pytest

from leadline.errors import ConfigurationError
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.tensors.poor_weight_initialization import PoorWeightInitialization
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts


def judge(values: dict[str, dict[str, float]], step: int = 0, **parameters: object) -> list[Verdict]:
    said = verdicts(PoorWeightInitialization(**parameters), [Capture(step, values)])
    return [verdict for _, verdict in said]


def inputs(*variances: float) -> dict[str, dict[str, float]]:
    return {f"act{index}.relu_input_0": {"variance": each} for index, each in enumerate(variances)}


def test_variances_of_layers_may_differ_tenfold_and_no_more() -> None:
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
    parts = [Capture(step, {"loss": {"value": each}}) for step, each in enumerate([1.0, 1.0, 2.0, math.nan, 1.0])]
    said = [type(verdict).__name__ for _, verdict in verdicts(PoorWeightInitialization(patience=3), parts)]
    assert said == ["Clear", "Clear", "Clear", "Undecided", "Fired"]


def test_after_the_first_steps_nothing_is_shown_or_captured() -> None:
    assert judge(inputs(100.0, 1.0), step=10) == []
    assert isinstance(judge(inputs(100.0, 1.0), step=9)[0], Fired)
    assert {each.end for each in PoorWeightInitialization(steps=7).needs().tensors} == {7}


def test_other_activations_can_be_named() -> None:
    assert judge(inputs(100.0, 1.0), activation_inputs_regex=".*tanh_input") == []
    values = {"a.tanh_input_0": {"variance": 1.0}, "b.tanh_input_0": {"variance": 50.0}}
    assert isinstance(judge(values, activation_inputs_regex=".*tanh_input")[0], Fired)


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="activation_inputs_regex '\\(' is no regular expression"):
        PoorWeightInitialization(activation_inputs_regex="(")
    with pytest.raises(ConfigurationError, match="steps must be a whole number >= 1, not 0"):
        PoorWeightInitialization(steps=0)
