"""probabilities_as_logits: detection of probabilities, patience, and similar values."""

from __future__ import annotations

import math

import pytest
from rule_scenarios import captured

from leadline.errors import ConfigurationError
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict
from leadline.rules.losses.probabilities_as_logits import ProbabilitiesAsLogits
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts

SOFTMAX, SIGMOID = "CrossEntropyLoss_input_0", "BCEWithLogitsLoss_input_0"


def judge(*seen: tuple[float, float, float], name: str = SOFTMAX, **parameters: int) -> list[Verdict]:
    parts = [
        captured(step, {name: {"min": low, "max": high, "mean": mean}}) for step, (low, high, mean) in enumerate(seen)
    ]
    return [verdict for _, verdict in verdicts(ProbabilitiesAsLogits(**parameters), parts)]


def test_fires_at_the_third_in_a_row() -> None:
    results = judge(*[(0.1, 0.9, 0.5)] * 2, (-1.0, 1.0, 0.5), *[(0.1, 0.9, 0.5)] * 3)
    assert [type(verdict) for verdict in results] == [Undecided] * 2 + [Clear] + [Undecided] * 2 + [Fired]
    assert results[1] == Undecided("2 of 3 captures so far agree", stage="suspected")
    assert "rows that sum to 1, 3 captures in a row" in results[-1].message


@pytest.mark.parametrize(
    ("seen", "fires"),
    [
        ((0.0, 1.0, 0.5), True),
        ((-1e-9, 1.0, 0.5), False),
        ((0.0, 1.0, 0.5005), True),
        ((0.0, 1.0, 0.50051), False),
        ((0.0, 1.0, 0.4994), False),
        ((math.nan, math.nan, math.nan), False),
    ],
)
def test_softmax_outputs_are_detected(seen: tuple[float, float, float], fires: bool) -> None:
    assert isinstance(judge(seen, patience=1)[0], Fired if fires else Clear)


@pytest.mark.parametrize(
    ("seen", "fires"),
    [
        ([(0.0, 1.0, 0.4)], True),
        ([(0.05, 0.95, 0.4)], True),
        ([(0.2, 0.8, 0.4)], False),
        ([(0.02, 0.4, 0.2), (0.5, 0.99, 0.8)], True),
        ([(0.0, 1.01, 0.4)], False),
        ([(-0.01, 1.0, 0.4)], False),
    ],
)
def test_sigmoid_outputs_are_detected_once_they_reach_both_ends(
    seen: list[tuple[float, float, float]], fires: bool
) -> None:
    assert isinstance(judge(*seen, name=SIGMOID, patience=len(seen))[-1], Fired if fires else Clear)


def test_other_losses_take_no_logits() -> None:
    infos = {"MSELoss_input_0": TensorInfo("MSELoss_input_0", ("predictions",), (8, 2))}
    part = Capture(0, {"MSELoss_input_0": {"min": 0.1, "max": 0.9, "mean": 0.5}}, infos=infos)
    results = verdicts(ProbabilitiesAsLogits(), [part])
    assert results == [(0, NotApplicable("no loss of the training takes logits"))]


def test_captures_in_part_are_undecided() -> None:
    results = verdicts(ProbabilitiesAsLogits(), [captured(0, {"CrossEntropyLoss_input_1": {"min": 0.0, "max": 1.0}})])
    assert [type(verdict) for _, verdict in results] == []
    part = captured(0, {SOFTMAX: {"min": 0.0}})
    assert isinstance(verdicts(ProbabilitiesAsLogits(), [part])[0][1], Undecided)


def test_it_needs_the_first_steps_and_every_500th() -> None:
    needs = ProbabilitiesAsLogits().needs().tensors
    assert {(need.end, need.every) for need in needs if not need.is_optional} == {(3, None), (None, 500)}


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="probabilities_as_logits: patience must be"):
        ProbabilitiesAsLogits(patience=0)
