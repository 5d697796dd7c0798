"""probabilities_as_logits: what probabilities look like, how often, and what only looks a little like them."""

from __future__ import annotations

import math

import pytest
from rule_scenarios import captured

from leadline.errors import ConfigurationError
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.losses.probabilities_as_logits import ProbabilitiesAsLogits
from leadline.testing.windows import verdicts

SOFTMAX, SIGMOID = "CrossEntropyLoss_input_0", "BCEWithLogitsLoss_input_0"


def judge(*seen: tuple[float, float, float], name: str = SOFTMAX, **parameters: int) -> list[Verdict]:
    parts = [
        captured(step, {name: {"min": low, "max": high, "mean": mean}}) for step, (low, high, mean) in enumerate(seen)
    ]
    return [verdict for _, verdict in verdicts(ProbabilitiesAsLogits(**parameters), parts)]


def test_fires_at_the_third_in_a_row() -> None:
    said = judge(*[(0.1, 0.9, 0.5)] * 2, (-1.0, 1.0, 0.5), *[(0.1, 0.9, 0.5)] * 3)
    assert [type(each) for each in said] == [Clear] * 5 + [Fired]
    assert "rows that sum to 1, 3 times running" in said[-1].message


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
def test_a_softmax_and_what_is_none(seen: tuple[float, float, float], fires: bool) -> None:
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
def test_a_sigmoid_is_believed_once_it_reaches_both_ends(seen: list[tuple[float, float, float]], fires: bool) -> None:
    assert isinstance(judge(*seen, name=SIGMOID, patience=len(seen))[-1], Fired if fires else Clear)


def test_other_losses_are_undecided() -> None:
    said = verdicts(ProbabilitiesAsLogits(), [captured(0, {"CrossEntropyLoss_input_1": {"min": 0.0, "max": 1.0}})])
    assert [type(each) for _, each in said] == []
    part = captured(0, {SOFTMAX: {"min": 0.0}})
    assert isinstance(verdicts(ProbabilitiesAsLogits(), [part])[0][1], Undecided)


def test_it_looks_at_the_first_steps_and_now_and_then() -> None:
    assert {(each.end, each.every) for each in ProbabilitiesAsLogits().needs().tensors} == {(3, None), (None, 500)}


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="probabilities_as_logits: patience must be"):
        ProbabilitiesAsLogits(patience=0)
