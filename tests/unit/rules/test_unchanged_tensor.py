"""unchanged_tensor: saved steps in a row that are each like the one before."""

from __future__ import annotations

import math

import pytest

from leadline.errors import ConfigurationError
from leadline.rules.tensors.unchanged_tensor import UnchangedTensor
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts

NAN = math.nan


def words(tensor: str, statistic: str, values: list[float], **parameters: object) -> list[str]:
    rule = UnchangedTensor(tensor_regex=("weight", "loss"), **parameters)
    results = verdicts(rule, [Capture(step, {tensor: {statistic: value}}) for step, value in enumerate(values)])
    return [type(verdict).__name__ for _, verdict in results]


def test_a_tensor_is_unchanged_after_num_steps_saved_steps() -> None:
    results = words("a.weight", "close_1e-05_1e-08", [NAN, 1.0, 1.0, 1.0, 0.999, 1.0])
    assert results == ["Undecided", "Undecided", "Fired", "Fired", "Clear", "Clear"]
    assert words("a.weight", "close_1e-05_1e-08", [NAN, 1.0], num_steps=2) == ["Undecided", "Fired"]


def test_scalars_are_compared_with_the_tolerances() -> None:
    results = words("loss", "value", [1.0, 1.0 + 1e-6, 1.0, 1.1], num_steps=2)
    assert results == ["Undecided", "Fired", "Fired", "Clear"]
    assert words("loss", "value", [1.0, 1.5], num_steps=2, atol=0.25, rtol=0.25) == ["Undecided", "Fired"]
    assert words("loss", "value", [1.0, 1.5], num_steps=2, atol=0.25, rtol=0.24) == ["Undecided", "Clear"]


def test_infinities_and_nan() -> None:
    assert words("loss", "value", [math.inf, math.inf], num_steps=2) == ["Undecided", "Fired"]
    assert words("loss", "value", [math.inf, 1.0], num_steps=2) == ["Undecided", "Clear"]
    assert words("loss", "value", [NAN, NAN], num_steps=2) == ["Undecided", "Clear"]
    assert words("loss", "value", [NAN, NAN], num_steps=2, equal_nan=True) == ["Undecided", "Fired"]
    assert words("a.weight", "close_1e-05_1e-08", [NAN] * 4) == ["Undecided"] * 4


def test_the_tolerances_are_in_the_captured_statistic() -> None:
    rule = UnchangedTensor(collection_names=("weights",), rtol=0.0, atol=0.5, equal_nan=True)
    assert {need.statistics for need in rule.needs().tensors} == {("close_0_0.5_nan", "value")}
    assert not any(need.raw for need in rule.needs().tensors)


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="nothing is selected"):
        UnchangedTensor()
    with pytest.raises(ConfigurationError, match="num_steps must be an integer >= 2, not 1"):
        UnchangedTensor(tensor_regex=("a",), num_steps=1)
    with pytest.raises(ConfigurationError, match="rtol must be a number >= 0"):
        UnchangedTensor(tensor_regex=("a",), rtol=-1.0)
