"""rising_validation_loss: overfitting, and what only looks like it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from tree_scenarios import loss

from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.losses.rising_validation_loss import RisingValidationLoss
from leadline.testing.runs import Capture, Part
from leadline.testing.windows import concluded, verdicts

STEPS, BATCHES = 4, 3
INFOS = {
    "loss": TensorInfo("loss", ("losses",), ()),
    "val_acc": TensorInfo("val_acc", ("metrics",), ()),
}
OVERFIT = [2.3, 1.2, 1.0, 1.02, 1.1, 1.3, 1.5, 1.7, 1.9, 2.1]


def training(
    validation: Sequence[float], fitted: Sequence[float] | None = None, accuracy: Sequence[float] = ()
) -> list[Part]:
    """Return a training with an evaluation of some batches after every few steps, and a train step at the end."""
    parts: list[Part] = []
    at = 0
    for epoch, value in enumerate(validation):
        train = 2.3 * 0.8**epoch if fitted is None else fitted[epoch]
        for batch in range(STEPS):
            parts.append(Capture(at, {"loss": {"value": train * (1 + 0.1 * batch)}}, infos=INFOS))
            at += 1
        for batch in range(BATCHES):
            values = {"loss": {"value": value * (0.9 + 0.1 * batch)}}
            if accuracy:
                values["val_acc"] = {"value": accuracy[epoch]}
            parts.append(Capture(at, values, mode="eval", infos=INFOS))
            at += 1
    return [*parts, Capture(at, {"loss": {"value": 0.1}}, infos=INFOS)]


def result(parts: Sequence[Part]) -> Verdict:
    """Return the finding, if there is one, otherwise the last verdict on an ended evaluation."""
    told = [verdict for _, verdict in verdicts(RisingValidationLoss(), parts)]
    fired = [verdict for verdict in told if isinstance(verdict, Fired)]
    return (fired or [verdict for verdict in told if "has ended" not in str(verdict)])[-1 if not fired else 0]


def test_the_best_step_and_both_losses_are_named() -> None:
    fired = result(training(OVERFIT))
    assert isinstance(fired, Fired)
    assert fired.message == (
        "overfitting since step 17: validation loss 1 → 2.1 at step 66, while the mean training loss fell from 1.69 "
        "to 0.355"
    )
    assert fired.suggestion.startswith("the checkpoint of step 17, ")
    assert fired.since_step == 17


def test_an_evaluation_counts_once_training_goes_on() -> None:
    parts = training(OVERFIT)
    first = [isinstance(verdict, Fired) for _, verdict in verdicts(RisingValidationLoss(), parts)]
    assert first.index(True) == next(
        index for index, part in enumerate(parts) if isinstance(part, Capture) and part.step == 10 * (STEPS + BATCHES)
    )


EPOCHS = range(30)
RNG = random.Random(0)
NOISE = [RNG.gauss(0, 1) for _ in EPOCHS]


@pytest.mark.parametrize(
    "validation",
    [
        pytest.param([2.3 * 0.9**epoch for epoch in EPOCHS], id="falls"),
        pytest.param([0.5 + 1.8 * 0.8**epoch for epoch in EPOCHS], id="flat"),
        pytest.param([0.5 + 1.8 * 0.8**epoch + 0.1 * NOISE[epoch] for epoch in EPOCHS], id="noisy"),
        pytest.param([1 + 0.3 * NOISE[epoch] for epoch in EPOCHS], id="all noise"),
        pytest.param([0.25 + 2 * 0.5**epoch + 0.004 * epoch for epoch in EPOCHS], id="a small part of what was gained"),
        pytest.param([max(1e-3, 2.3 * 0.3**epoch) * (1 + epoch / 9) for epoch in EPOCHS], id="nothing beside the gain"),
        pytest.param([2.3 * 0.9**epoch for epoch in range(20)] + [0.5] * 4, id="patience runs out"),
        pytest.param([2.3, *OVERFIT[:3], 1.3, 1.3, 1.3, 1.3][:7], id="few evaluations"),
        pytest.param([2 * 0.9**epoch + 0.3 * (epoch % 4) * 0.9**epoch for epoch in EPOCHS], id="rises in each epoch"),
    ],
)
def test_other_validations_are_not_overfitting(validation: list[float]) -> None:
    assert not isinstance(result(training(validation)), Fired)


def test_what_was_learned_before_the_first_evaluation_counts_as_gained() -> None:
    rising = [0.1, 0.1, 0.1, *(0.1 + 0.01 * epoch for epoch in range(10))]
    in_one_epoch = [2.3, *(0.2 * 0.8**epoch for epoch in range(12))]
    assert isinstance(result(training(rising, in_one_epoch)), Clear)
    assert isinstance(result(training(rising, [*in_one_epoch[1:], 0.01])), Fired)


def test_a_training_loss_that_does_not_fall_is_not_overfitting() -> None:
    assert isinstance(result(training(OVERFIT, [1.0] * 10)), Clear)
    assert isinstance(result(training(OVERFIT, [1 + epoch for epoch in range(10)])), Clear)


def test_an_accuracy_that_still_rises_is_not_overfitting() -> None:
    assert isinstance(result(training(OVERFIT, accuracy=[0.5 + 0.03 * epoch for epoch in range(10)])), Clear)
    assert isinstance(result(training(OVERFIT, accuracy=[50 + 3.0 * epoch for epoch in range(10)])), Clear)
    assert isinstance(result(training(OVERFIT, accuracy=[0.1 + 0.004 * epoch for epoch in range(10)])), Fired)
    assert isinstance(result(training(OVERFIT, accuracy=[0.5, 0.6, 0.7, 0.7, 0.6, 0.6, 0.7, 0.6, 0.7, 0.6])), Fired)


def test_values_that_are_not_finite_are_left_out() -> None:
    parts = training(OVERFIT)
    broken = Capture(10_000, {"loss": {"value": math.nan}}, mode="eval", infos=INFOS)
    assert isinstance(result([*parts, broken]), Fired)


def test_undecided_without_validation_training_or_enough_evaluations() -> None:
    only_training = [Capture(step, {"loss": {"value": 1.0}}, infos=INFOS) for step in range(5)]
    assert result(only_training) == Undecided("no validation loss was seen")
    short = result(training(OVERFIT[:7]))
    assert isinstance(short, Undecided)
    assert (short.why, short.stage) == ("too short: 7 of 8 evaluations, the last one left out", "too few")
    logged = {"val_loss": TensorInfo("val_loss", ("losses",), ())}
    alone = [Capture(step, {"val_loss": {"value": value}}, infos=logged) for step, value in enumerate(OVERFIT)]
    assert result(alone) == Undecided("no training loss was captured between the evaluations")


def test_logged_losses_of_an_epoch_are_compared() -> None:
    names = ("loss", "val_loss")
    infos = {name: TensorInfo(name, ("losses",), ()) for name in names}
    epochs = [
        Capture(10 * epoch, {"loss": {"value": 0.8**epoch}, "val_loss": {"value": value}}, infos=infos)
        for epoch, value in enumerate([*OVERFIT, 2.3])
    ]
    fired = result(epochs)
    assert isinstance(fired, Fired)
    assert fired.message.startswith("overfitting since step 20: val_loss 1 → 2.1 at step 90, while")


def test_boosters_have_rounds_and_need_no_training_loss() -> None:
    fired = result([loss(round_, valid=value) for round_, value in enumerate([*OVERFIT, 2.3])])
    assert isinstance(fired, Fired)
    assert fired.message == "overfitting since round 2: valid-logloss 1 → 2.1 at round 9"
    assert "early stopping on this set" in fired.suggestion
    assert isinstance(result([loss(round_, train=value) for round_, value in enumerate(OVERFIT)]), Undecided)


@pytest.mark.parametrize("noise", [0.05, 0.2])
@pytest.mark.parametrize("level", [lambda epoch: 1.0, lambda epoch: 0.5 + 1.8 * 0.8**epoch], ids=["flat", "settling"])
def test_noise_alone_seldom_fires(level: Callable[[int], float], noise: float) -> None:
    """Of 40 trainings of 60 epochs at most one; whoever compares with the lowest value finds most of the flat ones."""
    fired = 0
    for seed in range(40):
        draw = random.Random(seed)
        values = [max(level(epoch) + noise * draw.gauss(0, 1), 0.01) for epoch in range(60)]
        parts = [loss(round_, valid=value) for round_, value in enumerate(values)]
        fired += isinstance(result(parts), Fired)
    assert fired <= 1


def printed(values: Sequence[float], name: str = "val_rmse") -> list[Part]:
    """Return a training that prints a metric after every few steps, and in which no validation loss is captured."""
    infos = {**INFOS, name: TensorInfo(name, ("metrics", "printed"), ())}
    parts: list[Part] = []
    for epoch, value in enumerate(values):
        for batch in range(STEPS):
            step: dict[str, dict[str, float]] = {"loss": {"value": 2.3 * 0.8**epoch}}
            if batch == STEPS - 1:
                step[name] = {"value": value}
            parts.append(Capture(epoch * STEPS + batch, step, infos=infos))
    return [*parts, Capture(len(parts), {"loss": {"value": 0.1}}, infos=infos)]


def test_a_printed_error_stands_for_a_validation_loss() -> None:
    fired = result(printed(OVERFIT))
    assert isinstance(fired, Fired)
    assert fired.message.startswith(
        "overfitting since step 11: val_rmse 1 → 2.1 at step 39, while the mean training loss fell from "
    )


@pytest.mark.parametrize("name", ["rmse", "train_rmse", "val_kl_loss", "val_temperature", "val_acc"])
def test_other_printed_numbers_do_not(name: str) -> None:
    assert result(printed(OVERFIT, name)) == Undecided("no validation loss was seen")


def test_a_rise_within_few_printed_decimals_is_no_evidence() -> None:
    tenths = [0.9, 0.4, 0.3, 0.3, 0.3, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4]
    assert result(printed(tenths)) == Clear()
    assert isinstance(result(printed([value + 0.0001 * at for at, value in enumerate(tenths)])), Fired)


def test_a_captured_validation_loss_comes_before_a_printed_one() -> None:
    falling = training([2.3 * 0.8**epoch for epoch in range(10)])
    infos = {**INFOS, "val_rmse": TensorInfo("val_rmse", ("metrics", "printed"), ())}
    errors = iter(OVERFIT)
    parts = [
        replace(part, values={**part.values, "val_rmse": {"value": next(errors)}}, infos=infos)
        if isinstance(part, Capture) and part.mode == "eval" and part.step % (STEPS + BATCHES) == STEPS
        else part
        for part in falling
    ]
    assert result(parts) == Clear()


def at_end(parts: Sequence[Part]) -> Fired | None:
    """Return what the rule finds when the training is over."""
    return concluded(RisingValidationLoss(), parts)


FEW = [0.61, 0.5, 0.455, 0.48, 0.53, 0.592]
FITTED = [0.6 * 0.6**epoch for epoch in range(8)]


def test_a_few_evaluations_that_rise_are_overfitting_once_the_training_is_over() -> None:
    parts = training(FEW, FITTED)[:-1]
    assert not isinstance(result(parts), Fired)
    fired = at_end(parts)
    assert fired is not None
    assert fired.message.startswith(
        "overfitting since step 17: validation loss 0.455 → 0.592 at step 38, while the mean "
    )
    assert fired.suggestion.startswith("the checkpoint of step 17, ")
    assert (fired.since_step, fired.evidence["best_step"], fired.evidence["last_step"]) == (17, 17, 38)
    assert at_end(training([0.48, 0.55, 0.68], FITTED)[:-1]) is not None


@pytest.mark.parametrize(
    ("validation", "fitted", "accuracy"),
    [
        pytest.param([0.6, 0.5, 0.46, 0.45, 0.455, 0.46], FITTED, (), id="flat"),
        pytest.param([0.6, 0.5, 0.46, 0.45, 0.44, 0.6], FITTED, (), id="only the last one"),
        pytest.param([0.6, 0.5, 0.46, 0.62, 0.45, 0.44], FITTED, (), id="recovers"),
        pytest.param([0.6, 0.8, 0.46, 0.7, 0.5, 0.62], FITTED, (), id="varies"),
        pytest.param([2.0, 1.0, 0.1, 0.12, 0.14, 0.16], None, (), id="a small part of what was gained"),
        pytest.param(FEW, [1.0] * 6, (), id="the training loss stays"),
        pytest.param(FEW, FITTED, (0.7, 0.75, 0.78, 0.79, 0.8, 0.81), id="the accuracy rises"),
        pytest.param(FEW[:4], FITTED, (), id="one evaluation after the best"),
    ],
)
def test_other_ends_are_not(validation: list[float], fitted: list[float] | None, accuracy: Sequence[float]) -> None:
    assert at_end(training(validation, fitted, accuracy)[:-1]) is None


def test_an_evaluation_that_was_broken_off_does_not_count() -> None:
    parts = training([0.61, 0.455, 0.5, 0.9], FITTED)[:-1]
    assert at_end(parts) is not None
    assert at_end(parts[:-1]) is None


@pytest.mark.parametrize("count", [3, 4, 6, 8])
def test_noise_of_few_evaluations_seldom_ends_as_overfitting(count: int) -> None:
    """At most 1 of 100 that vary by 5 % about a level."""
    draw = random.Random(0)
    values = ([1 + 0.05 * draw.gauss(0, 1) for _ in range(count)] for _ in range(100))
    assert sum(at_end(training(drawn, FITTED)[:-1]) is not None for drawn in values) <= 1
