"""generalization_gap: validation that stands still while the training improves, and what only looks like it."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence

import pytest

from leadline.records.loss_roles import TRAINING_SET, VALIDATION_SET
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict
from leadline.rules.losses.generalization_gap import GeneralizationGap
from leadline.testing.runs import Capture, Part
from leadline.testing.windows import verdicts

EPOCHS = range(16)
FITTED = [2.3 * 0.7**epoch for epoch in EPOCHS]
NOISE = [random.Random(0).gauss(0, 1) for _ in range(200)]


def training(
    validation: Sequence[float], fitted: Sequence[float] = FITTED, *, name: str = "loss", collection: str = "losses"
) -> list[Part]:
    """Return a training of two steps and two eval steps in each epoch, with a train step at the end."""
    infos = {name: TensorInfo(name, (collection,), ())}
    parts: list[Part] = []
    for epoch, (train, value) in enumerate(zip(fitted, validation, strict=False)):
        for at, (mode, number) in enumerate((("train", train), ("train", train), ("eval", value), ("eval", value))):
            parts.append(Capture(4 * epoch + at, {name: {"value": number}}, mode=mode, infos=infos))
    return [*parts, Capture(4 * len(validation), {name: {"value": fitted[-1]}}, infos=infos)]


def told(parts: Sequence[Part]) -> list[Verdict]:
    return [verdict for _, verdict in verdicts(GeneralizationGap(), parts)]


def result(parts: Sequence[Part]) -> Verdict:
    """Return the first finding, if there is one, otherwise the last verdict on an evaluation that has ended."""
    found = told(parts)
    ended = [verdict for verdict in found if "has ended" not in str(verdict)]
    return next((verdict for verdict in found if isinstance(verdict, Fired)), ended[-1])


def remarks(parts: Sequence[Part]) -> list[str]:
    product: dict[str, list[str]] = {}
    for verdict in told(parts):
        product = verdict.product or product
    return product.get("remarks", [])


def test_boosted_trees_are_not_judged() -> None:
    infos = {
        "train-logloss": TensorInfo("train-logloss", ("losses", TRAINING_SET), ()),
        "val-logloss": TensorInfo("val-logloss", ("losses", VALIDATION_SET), ()),
    }
    rounds = [
        Capture(step, {"train-logloss": {"value": 0.5 * 0.9**step}, "val-logloss": {"value": 0.4}}, infos=infos)
        for step in range(60)
    ]
    assert {type(verdict) for verdict in told(rounds)} == {NotApplicable}


def test_validation_that_stands_still_is_named_with_its_best_step() -> None:
    flat = [2.2, 2.0, 1.9, *[1.8] * 13]
    fired = result(training(flat))
    assert isinstance(fired, Fired)
    assert fired.message == (
        "overfitting since step 13: validation loss has not improved (1.8 then, 1.8 at step 37), while the mean "
        "training loss fell from 0.789 to 0.0928"
    )
    assert fired.suggestion.startswith("the checkpoint of step 13, more training examples")
    assert (fired.since_step, fired.tensors) == (13, ("loss",))
    assert remarks(training(flat)) == []


def test_advice_names_the_best_evaluation_though_noise_made_it() -> None:
    """A level that is better by less than noise is no improvement, and yet the best checkpoint is that one's."""
    accuracy = [0.3, 0.4, 0.475, 0.45, 0.49, 0.46, 0.478, 0.5, 0.47, 0.48, 0.46, 0.49, 0.47, 0.48, 0.46, 0.47]
    parts = training(accuracy, [1 - 0.8 * 0.6**epoch for epoch in EPOCHS], name="accuracy", collection="metrics")
    fired = result(parts)
    assert isinstance(fired, Fired)
    values = {value: 4 * epoch + 1 for epoch, value in reversed(list(enumerate(accuracy)))}
    then, last = re.findall(r"\((\S+) then, (\S+) at step", fired.message)[0]
    assert {float(then), float(last)} <= set(values)
    assert fired.suggestion.startswith(f"the checkpoint of step {values[0.5]}, ")
    assert fired.since_step == values[float(then)]
    assert ("hardly" in fired.message) == (float(last) > float(then))


def test_accuracy_at_guessing_beside_a_perfect_one() -> None:
    accurate = [1 - 0.9 * 0.6**epoch for epoch in EPOCHS]
    parts = training([0.09 + 0.005 * noise for noise in NOISE[:16]], accurate, name="accuracy", collection="metrics")
    fired = result(parts)
    assert isinstance(fired, Fired)
    assert fired.message.startswith("overfitting: validation accuracy was 0.0")
    assert fired.message.split("while ")[1].startswith("the mean training accuracy rose from 0.1 to ")
    assert "both sets side by side" in fired.suggestion


@pytest.mark.parametrize(
    "validation",
    [
        pytest.param([2.3 * 0.75**epoch for epoch in EPOCHS], id="falls"),
        pytest.param([0.5 + 1.8 * 0.6**epoch for epoch in EPOCHS], id="a gap that is small beside the gain"),
        pytest.param([1.2 + 1.1 * 0.93**epoch for epoch in EPOCHS], id="improves slowly"),
        pytest.param([0.5 + abs(0.4 * noise) for noise in NOISE[:16]], id="noise"),
        pytest.param([250 - 0.1 * epoch for epoch in EPOCHS], id="a sum"),
        pytest.param([2.2, 2.0, 1.9, 1.8, 1.8, 1.8, 1.8], id="few"),
        pytest.param([math.nan] * 16, id="not a number"),
        pytest.param([1.8] * 16, id="a model that does not change"),
    ],
)
def test_other_validations_are_not_overfitting(validation: list[float]) -> None:
    assert not isinstance(result(training(validation)), Fired)


@pytest.mark.parametrize(
    "fitted",
    [[2.3] * 16, [2.3 + 0.1 * noise for noise in NOISE[:16]], [2.3 * 0.3 ** min(epoch, 2) for epoch in EPOCHS]],
    ids=["flat", "noise", "over before validation stands still"],
)
def test_a_training_that_does_not_improve_is_not_overfitting(fitted: list[float]) -> None:
    assert not isinstance(result(training([2.3, 2.1, 1.9, 1.7, *[1.5] * 12], fitted)), Fired)


def test_a_gap_without_a_standstill_is_a_remark() -> None:
    slowly = [1.2 + 1.1 * 0.93**epoch for epoch in EPOCHS]
    assert remarks(training(slowly)) == [
        "the mean training loss fell from 2.3 to 0.0109, validation loss from 2.3 only to 1.57 at its best, at step "
        "61: most of what the model has learned is true of its training examples alone (overfitting)"
    ]
    assert remarks(training([2.3 * 0.75**epoch for epoch in EPOCHS])) == []
    assert remarks(training([2.2, 2.0, 1.9, 1.8]))
    assert remarks(training([2.2, 2.0, 1.9, 1.2, 0.6, 0.3, 0.2, 0.1, 0.1, 0.1])) == []


def test_shares_are_not_compared_with_percentages() -> None:
    percent = [min(100.0, 10 + 9.0 * epoch) for epoch in EPOCHS]
    of_shares = training([0.1] * 16, percent, name="accuracy", collection="metrics")
    assert isinstance(result(of_shares), Clear)
    of_percent = training([10.0] * 16, percent, name="accuracy", collection="metrics")
    assert isinstance(result(of_percent), Fired)


def test_names_of_tensorboard_are_a_pair() -> None:
    infos = {name: TensorInfo(name, ("scalars", "metrics"), ()) for name in ("Accuracy/train", "Accuracy/test")}
    epochs = [
        Capture(10 * at, {"Accuracy/train": {"value": 1 - 0.9 * 0.6**at}, "Accuracy/test": {"value": 0.1}}, infos=infos)
        for at in range(14)
    ]
    fired = result(epochs)
    assert isinstance(fired, Fired)
    assert fired.message.startswith("overfitting: Accuracy/test was 0.1 in the first evaluation and is 0.1 at step ")


def test_undecided_without_a_pair_or_enough_evaluations() -> None:
    infos = {"loss": TensorInfo("loss", ("losses",), ())}
    alone = [Capture(step, {"loss": {"value": 1.0}}, infos=infos) for step in range(5)]
    assert result(alone) == Undecided("no loss or metric was seen in training and then in validation")
    few = result(training([2.0, 1.0, 0.5]))
    assert isinstance(few, Undecided)
    assert (few.why, few.stage) == ("3 of 8 evaluations needed, the last one left out", "too few")


@pytest.mark.parametrize("noise", [0.02, 0.2])
def test_noise_alone_never_fires(noise: float) -> None:
    """Validation that follows the training to a floor, with noise, in 100 trainings of 40 epochs."""
    for seed in range(100):
        draw = random.Random(seed)
        fitted = [0.4 + 1.9 * 0.8**epoch + noise * draw.gauss(0, 1) / 3 for epoch in range(40)]
        validation = [0.5 + 1.8 * 0.8**epoch + noise * draw.gauss(0, 1) for epoch in range(40)]
        assert not isinstance(result(training(validation, fitted)), Fired)


def test_an_accuracy_of_zero_has_no_sign() -> None:
    parts = training([0.0] * 16, [1 - 0.6**epoch for epoch in EPOCHS], name="accuracy", collection="metrics")
    fired = result(parts)
    assert isinstance(fired, Fired)
    assert "validation accuracy was 0 in the first evaluation and is 0 at step 29" in fired.message
    assert "rose from 0 to" in fired.message


def test_shares_that_differ_by_a_few_samples_have_no_gap() -> None:
    rising = [0.97 + 0.03 * min(epoch / 4, 1) for epoch in EPOCHS]
    parts = training([0.97, 0.965] * 8, rising, name="accuracy", collection="metrics")
    assert isinstance(result(parts), Clear)
    percent = training([97, 96.5] * 8, [100 * share for share in rising], name="accuracy", collection="metrics")
    assert isinstance(result(percent), Clear)
    assert remarks(parts) == remarks(percent) == []
