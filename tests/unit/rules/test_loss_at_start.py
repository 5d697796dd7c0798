"""loss_at_start: the mean of three losses of a classifier compared with ln C."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from leadline.errors import ConfigurationError
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.losses.loss_at_start import LossAtStart
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts


def judge(
    values: Sequence[float], call: str = "CrossEntropyLoss", shape: tuple[int, ...] = (8, 10), **parameters: float
) -> list[Verdict]:
    infos = {
        f"{call}_input_0": TensorInfo(f"{call}_input_0", ("predictions",), shape),
        f"{call}_output_0": TensorInfo(f"{call}_output_0", ("losses",), ()),
    }
    parts = [Capture(0, {f"{call}_input_0": {"abs_max": 1.0}}, infos=infos)]
    parts += [Capture(step, {f"{call}_output_0": {"value": value}}, infos=infos) for step, value in enumerate(values)]
    return [verdict for _, verdict in verdicts(LossAtStart(**parameters), parts)]


def test_fires_at_the_third_loss_and_is_clear_on_its_bound() -> None:
    bound = 2 * math.log(10)
    assert [type(verdict) for verdict in judge([bound] * 3)] == [Undecided, Undecided, Clear]
    results = judge([bound, bound, bound + 0.1])
    assert isinstance(results[-1], Fired)
    assert "among 10 classes (ln 10 = 2.303)" in results[-1].message


def test_only_the_first_steps_are_evaluated() -> None:
    assert len(judge([9.0] * 10)) == 3


@pytest.mark.parametrize(
    ("call", "shape", "classes"),
    [
        ("cross_entropy", (8, 10), 10),
        ("head.cross_entropy", (8, 5, 7, 7), 5),
        ("NLLLoss", (8, 3), 3),
        ("CrossEntropyLoss", (4,), 4),
        ("BCEWithLogitsLoss", (8, 1), 2),
        ("binary_cross_entropy", (8,), 2),
    ],
)
def test_the_number_of_classes_is_taken_from_the_loss_call(call: str, shape: tuple[int, ...], classes: int) -> None:
    verdict = judge([50.0] * 3, call, shape)[-1]
    assert isinstance(verdict, Fired)
    assert verdict.evidence["classes"] == classes


@pytest.mark.parametrize(
    ("call", "shape"), [("MSELoss", (8, 10)), ("CrossEntropyLoss", ()), ("CrossEntropyLoss", (8, 1))]
)
def test_losses_of_other_models_are_undecided(call: str, shape: tuple[int, ...]) -> None:
    assert all(isinstance(verdict, Undecided) for verdict in judge([50.0] * 3, call, shape))


def test_classes_can_be_set() -> None:
    assert isinstance(judge([50.0] * 3, "MSELoss", classes=10)[-1], Fired)


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_nan_is_undecided(number: float) -> None:
    assert isinstance(judge([1.0, number, 1.0])[-1], Undecided)


@pytest.mark.parametrize(("name", "value"), [("factor", 1.0), ("classes", 1)])
def test_invalid_parameters_are_rejected(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=f"loss_at_start: {name} must be"):
        LossAtStart(**{name: value})
