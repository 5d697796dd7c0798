"""loss_at_start: the first losses compared with guessing, and losses that stay above the first one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest

from leadline.errors import ConfigurationError
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.losses.loss_at_start import LossAtStart
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts

Labels = Mapping[str, float]
UNIT: Labels = {"mean": 0.0, "variance": 1.0, "abs_mean": 0.8}
"""Labels with a standard deviation of 1."""


def judge(
    values: Sequence[float],
    call: str = "CrossEntropyLoss",
    shape: tuple[int, ...] = (8, 10),
    labels: Labels | None = None,
    others: Sequence[float] | None = None,
    **parameters: float,
) -> list[Verdict]:
    """Return the verdicts on the losses of a call; ``others`` are those of a second loss without a known call."""
    infos = {
        f"{call}_input_0": TensorInfo(f"{call}_input_0", ("predictions",), shape),
        f"{call}_input_1": TensorInfo(f"{call}_input_1", ("labels",), shape[:1]),
        f"{call}_output_0": TensorInfo(f"{call}_output_0", ("losses",), ()),
    }
    first: dict[str, Labels] = {f"{call}_input_0": {"abs_max": 1.0}}
    parts = [Capture(0, first | ({f"{call}_input_1": labels} if labels else {}), infos=infos)]
    parts += [Capture(step, {f"{call}_output_0": {"value": value}}, infos=infos) for step, value in enumerate(values)]
    parts += [Capture(step, {"loss": {"value": value}}) for step, value in enumerate(others or ())]
    return [verdict for _, verdict in verdicts(LossAtStart(**parameters), parts)]


def test_fires_at_the_tenth_loss_and_is_clear_on_its_bound() -> None:
    bound = 3 * math.log(10)
    assert [type(verdict) for verdict in judge([bound] * 10)] == [Undecided] * 9 + [Clear]
    results = judge([bound + 0.1] * 10)
    assert isinstance(results[-1], Fired)
    assert results[-1].message.endswith("3.04 times that of guessing among 10 classes (ln 10 = 2.3)")
    assert results[-1].since_step == 0


@pytest.mark.parametrize(("passes", "is_sum", "expected"), [(4.0, 1.0, Clear), (1.0, 1.0, Fired), (4.0, 0.0, Fired)])
def test_sums_over_parts_of_a_batch_have_no_level(passes: float, is_sum: float, expected: type[Verdict]) -> None:
    loss = "CrossEntropyLoss_output_0"
    facts = {f"{loss}/backward_passes": passes, f"{loss}/is_sum": is_sum, f"{loss}/is_scaled": 1.0}
    infos = {name: TensorInfo(name, ("checks",), ()) for name in facts} | {
        "CrossEntropyLoss_input_0": TensorInfo("CrossEntropyLoss_input_0", ("predictions",), (8, 10)),
        loss: TensorInfo(loss, ("losses",), ()),
    }
    parts = [
        Capture(0, {"CrossEntropyLoss_input_0": {"abs_max": 1.0}}, infos=infos),
        Capture(1, {name: {"value": value} for name, value in facts.items()}, infos=infos),
        *[Capture(step, {loss: {"value": 94.0}}, infos=infos) for step in range(12)],
    ]
    assert isinstance(verdicts(LossAtStart(), parts)[-1][1], expected)


def test_fires_at_the_tenth_loss_if_all_after_the_first_are_far_above_guessing() -> None:
    results = judge([2.3] + [9.0] * 9)
    assert [type(verdict) for verdict in results[-2:]] == [Undecided, Fired]
    assert (
        results[-1].message
        == "CrossEntropyLoss_output_0 started at 2.3, and stayed above 9 at each of the 9 losses captured after that"
    )
    assert not isinstance(judge([2.3] + [6.0] * 9)[-1], Fired)


def test_one_low_loss_is_enough() -> None:
    assert judge([9.0, 2.0] + [9.0] * 8)[-1] == Clear()
    assert [type(verdict) for verdict in judge([9.0] * 10 + [2.0])][-2:] == [Fired, Clear]


def test_only_the_first_steps_are_evaluated() -> None:
    assert len(judge([9.0] * 50)) == 41


@pytest.mark.parametrize(
    ("call", "shape", "classes"),
    [
        ("cross_entropy", (8, 10), 10),
        ("head.cross_entropy", (8, 5, 7, 7), 5),
        ("NLLLoss", (8, 3), 3),
        ("CrossEntropyLoss", (4,), 4),
        ("BCEWithLogitsLoss", (8, 1), 2),
        ("binary_cross_entropy", (8,), 2),
        ("CrossEntropyLoss_1", (8, 3), 3),
    ],
)
def test_the_number_of_classes_is_taken_from_the_loss_call(call: str, shape: tuple[int, ...], classes: int) -> None:
    verdict = judge([50.0] * 10, call, shape)[-1]
    assert isinstance(verdict, Fired)
    assert verdict.evidence["classes"] == classes


@pytest.mark.parametrize(
    ("call", "guess", "power"),
    [("MSELoss", 2.0, 2), ("l1_loss", 1.8, 1), ("SmoothL1Loss", 1.8, 1), ("huber_loss", 1.8, 1)],
)
def test_errors_of_a_regression_are_compared_with_its_labels(call: str, guess: float, power: int) -> None:
    bound = guess * 10**power
    assert judge([bound] * 10, call, (4, 1), UNIT)[-1] == Clear()
    verdict = judge([bound * 1.01] * 10, call, (4, 1), UNIT)[-1]
    assert isinstance(verdict, Fired)
    assert verdict.evidence["guess"] == pytest.approx(guess)


def test_large_labels_have_large_losses() -> None:
    prices = {"mean": 2e5, "variance": 1e10, "abs_mean": 2e5}
    assert judge([5e10] * 10, "MSELoss", (8, 1), prices)[-1] == Clear()


@pytest.mark.parametrize(("call", "shape"), [("MSELoss", (8, 10)), ("CrossEntropyLoss", ()), ("KLDivLoss", (8, 1))])
def test_losses_without_a_known_guess_are_not_compared(call: str, shape: tuple[int, ...]) -> None:
    assert judge([50.0] * 10, call, shape)[-1] == Clear()


def test_a_loss_summed_over_the_batch_is_not_compared() -> None:
    assert judge([8 * 2.4] * 10, labels=UNIT)[-1] == Clear()
    assert isinstance(judge([8 * 2.4] * 10)[-1], Fired)
    assert isinstance(judge([80 * 2.4] * 10, labels=UNIT)[-1], Fired)


def test_fires_if_the_loss_stays_above_its_start() -> None:
    results = judge([2.4] + [3.0] * 40)
    assert [type(verdict) for verdict in results[-2:]] == [Undecided, Fired]
    assert isinstance(results[-1], Fired)
    assert (
        results[-1].message
        == "CrossEntropyLoss_output_0 started at 2.4, and stayed above 3 at each of the 40 losses captured after that"
    )


@pytest.mark.parametrize(
    ("first", "later"),
    [
        pytest.param(2.4, 2.5, id="noise, as in a warm-up"),
        pytest.param(0.2, 0.3, id="a pretrained model, below guessing"),
        pytest.param(-2.0, -1.0, id="a negative loss"),
    ],
)
def test_a_small_rise_is_clear(first: float, later: float) -> None:
    assert judge([first] + [later] * 40)[-1] == Clear()


def test_fires_if_half_of_the_losses_are_far_above_the_start() -> None:
    fired = judge([2.4, 2.3] + [4.0] * 39)[-1]
    assert isinstance(fired, Fired)
    assert (
        fired.message
        == "CrossEntropyLoss_output_0 started at 2.4, and half of the 40 losses captured after that are above 4"
    )
    assert isinstance(judge([2.4, 2.3] + [3.5] * 39)[-1], Clear)
    assert isinstance(judge([2.4] + [2.3] * 20 + [9.0] * 20)[-1], Fired)
    assert isinstance(judge([2.4] + [2.3] * 21 + [9.0] * 19)[-1], Clear)
    assert isinstance(judge([2.4, 2.3] + [4.0] * 39, others=[1.0] * 41)[-1], Clear)


@pytest.mark.parametrize(("samples", "expected"), [(32, Clear), (2048, Fired)])
def test_labels_of_other_batches_may_be_larger(samples: int, expected: type[Verdict]) -> None:
    call, checks = "mean_squared_error", TensorInfo("mean_squared_error/is_whole_loss", ("checks",), ())
    infos = {
        f"{call}_input_1": TensorInfo(f"{call}_input_1", ("labels",), (samples, 1)),
        "loss": TensorInfo("loss", ("losses",), ()),
        checks.name: checks,
    }
    labels = {"mean": 4.0, "variance": 17.0, "abs_mean": 5.0}
    parts = [Capture(0, {f"{call}_input_1": labels, checks.name: {"value": 1.0}}, infos=infos)]
    parts += [
        Capture(step, {"loss": {"value": value}}, infos=infos) for step, value in enumerate([34.0, 30.0] + [60.0] * 39)
    ]
    assert isinstance([verdict for _, verdict in verdicts(LossAtStart(), parts)][-1], expected)


def test_of_several_losses_all_must_rise() -> None:
    rising = [0.7] + [2.0] * 40
    assert judge(rising, "BCELoss", (8, 1), others=[1.4] + [0.6] * 40)[-1] == Clear()
    assert isinstance(judge(rising, "BCELoss", (8, 1), others=[1.4] + [2.6] * 40)[-1], Fired)


def test_an_unknown_loss_must_rise_by_far() -> None:
    assert judge([2.0] + [20.0] * 40, "KLDivLoss")[-1] == Clear()
    assert isinstance(judge([2.0] + [20.1] * 40, "KLDivLoss")[-1], Fired)


def test_a_rise_of_a_summed_loss_is_in_units_of_the_sum() -> None:
    assert judge([8.0] + [9.0] * 40, "MSELoss", (8, 1), UNIT)[-1] == Clear()
    assert isinstance(judge([8.0] + [18.0] * 40, "MSELoss", (8, 1), UNIT)[-1], Fired)


@pytest.mark.parametrize(
    ("call", "shape", "classes"),
    [("sparse_categorical_crossentropy", (8, 6, 10), 10), ("binary_crossentropy", (8, 1), 2)],
)
def test_the_classes_of_keras_are_the_last_dimension(call: str, shape: tuple[int, ...], classes: int) -> None:
    fired = judge([50.0] * 10, call, shape)[-1]
    assert isinstance(fired, Fired)
    assert fired.evidence["classes"] == classes


@pytest.mark.parametrize(("is_whole", "expected"), [(1.0, Fired), (0.0, Clear)])
def test_a_loss_with_a_name_of_its_own_is_compared_if_one_call_is_all_of_it(
    is_whole: float, expected: type[Verdict]
) -> None:
    call, checks = "binary_crossentropy", TensorInfo("binary_crossentropy/is_whole_loss", ("checks",), ())
    infos = {
        f"{call}_input_0": TensorInfo(f"{call}_input_0", ("predictions",), (8, 1)),
        "loss": TensorInfo("loss", ("losses",), ()),
        checks.name: checks,
    }
    parts = [Capture(0, {f"{call}_input_0": {"abs_max": 1.0}, checks.name: {"value": is_whole}}, infos=infos)]
    parts += [Capture(step, {"loss": {"value": 3.0}}, infos=infos) for step in range(10)]
    assert isinstance([verdict for _, verdict in verdicts(LossAtStart(), parts)][-1], expected)


def test_classes_can_be_set() -> None:
    assert isinstance(judge([50.0] * 10, "MSELoss", classes=10)[-1], Fired)


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_nan_is_not_evaluated(number: float) -> None:
    assert isinstance(judge([number] * 10)[-1], Undecided)
    assert judge([2.0] * 9 + [number, 1.0])[-1] == Clear()


@pytest.mark.parametrize(("name", "value"), [("factor", 1.0), ("label_factor", 1.0), ("classes", 1), ("steps", 9)])
def test_invalid_parameters_are_rejected(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=f"loss_at_start: {name} must be"):
        LossAtStart(**{name: value})
