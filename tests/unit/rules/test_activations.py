"""dead_relu and saturated_activation: shares of units, by kind of activation."""

from __future__ import annotations

import math

import pytest
from generated_runs import arrays_of

from leadline.errors import ConfigurationError
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.tensors.dead_relu import DeadRelu
from leadline.rules.tensors.saturated_activation import SaturatedActivation
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts

TANH, SIGMOID = "unit_within_-9.4999_9.4999", "unit_within_-23_16.99999"


def judge(rule: Rule, tensor: str, collection: str, statistic: str, units: list[float]) -> list[Verdict]:
    info = {tensor: TensorInfo(tensor, ("layers", collection), (8, len(units)))}
    parts = [Capture(0, {tensor: {"max": 1.0}}, infos=info), arrays_of(0, {f"{tensor}@{statistic}": units})]
    return [verdict for _, verdict in verdicts(rule, parts)]


def relu(units: list[float], **parameters: float) -> Verdict:
    (verdict,) = judge(DeadRelu(**parameters), "act_output_0", "relu_output", "unit_activity", units)
    return verdict


def test_fires_above_half_of_a_layer_dead() -> None:
    assert relu([0.0, 0.0, 1.0, 1.0]) == Clear()
    fired = relu([0.0, 0.0, 0.0, 1.0])
    assert isinstance(fired, Fired)
    assert fired.message == "act_output_0: 3 of 4 units (75 %) are active on fewer than 1 % of the samples"


def test_a_unit_active_on_one_percent_of_the_samples_is_not_dead() -> None:
    assert relu([0.01] * 4) == Clear()
    assert relu([0.009999999776482582] * 4) == Clear(), "0.01 in single precision"
    assert isinstance(relu([0.0099] * 4), Fired)


def test_other_thresholds() -> None:
    assert isinstance(relu([0.2, 0.9], threshold_inactivity=50.0, threshold_layer=49.0), Fired)
    assert relu([0.2, 0.9], threshold_inactivity=50.0, threshold_layer=50.0) == Clear()


def test_a_layer_without_samples_is_not_evaluated() -> None:
    assert isinstance(relu([math.nan, math.nan]), Undecided)
    assert isinstance(relu([]), Undecided)


def test_the_collection_of_the_kind_is_selected_whatever_the_module_name() -> None:
    dead = [0.0, 0.0]
    assert judge(DeadRelu(), "layer1.relu_output_0", "x", "unit_activity", dead)
    assert judge(DeadRelu(), "layer1.act_output_0", "x", "unit_activity", dead) == []
    assert judge(DeadRelu(tensor_regex=("act_output",)), "layer1.act_output_0", "x", "unit_activity", dead)


def test_each_activation_has_its_own_band() -> None:
    dead = [0.0, 0.0, 1.0]
    for tensor, collection, statistic in (
        ("a_input_0", "tanh_input", TANH),
        ("a_input_0", "sigmoid_input", SIGMOID),
        ("block.tanh_input_0", "x", TANH),
        ("block.sigmoid_input_0", "x", SIGMOID),
    ):
        (fired,) = judge(SaturatedActivation(), tensor, collection, statistic, dead)
        assert isinstance(fired, Fired)
        assert "2 of 3 units (67 %) are within" in fired.message
    assert judge(SaturatedActivation(), "block.tanh_input_0", "x", SIGMOID, dead) == []


def test_each_band_is_captured_only_for_its_inputs() -> None:
    needs = {(need.collection, need.regex): need.statistics for need in SaturatedActivation().needs().tensors}
    assert needs == {
        ("tanh_input", None): (TANH,),
        (None, ".*tanh_input"): (TANH,),
        ("sigmoid_input", None): (SIGMOID,),
        (None, ".*sigmoid_input"): (SIGMOID,),
    }
    (other,) = SaturatedActivation(tensor_regex=("gate",), threshold_tanh_min=-3, threshold_tanh_max=3).needs().tensors
    assert other.statistics == ("unit_within_-3_3", SIGMOID)


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match=r"threshold_tanh_min \(5\) must be below threshold_tanh_max \(5\)"):
        SaturatedActivation(threshold_tanh_min=5, threshold_tanh_max=5)
    for rule in (DeadRelu, SaturatedActivation):
        with pytest.raises(ConfigurationError, match="threshold_layer must be a number >= 0 and <= 100"):
            rule(threshold_layer=101.0)
        with pytest.raises(ConfigurationError, match="not a valid regular expression"):
            rule(tensor_regex=("(",))
