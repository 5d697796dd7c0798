"""The best evaluation of a run: its step, its metric and its noise, and overfitting in that word."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from leadline.records.names import BEST_EVALUATION
from leadline.records.series import TensorInfo
from leadline.rules.losses.closing_remarks import ClosingRemarks
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts

EVERY = 10
FEW = "too few for their noise"


def best(
    evaluations: Sequence[float | Sequence[float]], training: Sequence[float] = (), name: str = "cross_entropy"
) -> str:
    """Return what is said at the end of a run with an evaluation every ten train steps.

    Args:
        evaluations: Means, or the values of the batches.
        training: The training loss before each evaluation; empty: none is captured.
    """
    collection = "losses" if name == "cross_entropy" else "metrics"
    infos = {one: TensorInfo(one, (kind,), ()) for one, kind in ((name, collection), ("loss", "losses"))}
    parts, step = [], 0
    for number, values in enumerate(evaluations, 1):
        for train_step in range((number - 1) * EVERY, number * EVERY):
            if training:
                row = {"loss": {"value": training[number - 1]}}
                parts.append(Capture(step, row, mode="train", mode_step=train_step, infos=infos))
            step += 1
        for batch in values if isinstance(values, Sequence) else [values]:
            parts.append(Capture(step, {name: {"value": batch}}, mode="eval", mode_step=step, infos=infos))
    found = [verdict for _, verdict in verdicts(ClosingRemarks(), parts)]
    return str(found[-1].product.get(BEST_EVALUATION, ""))


def test_the_last_one_may_be_the_best() -> None:
    assert best([[3.0, 3.0], 2.0, [1.5, 0.5]]) == f"best of 3 evaluations: step 30, validation loss 1 ({FEW})"


def test_a_single_one_is_not_compared() -> None:
    assert best([3.0]) == ""


def test_the_noise_equals_that_of_numpy() -> None:
    values = [0.9, 0.71, 0.66, 0.68, 0.61, 0.63, 0.62]
    steps = np.diff(values)
    noise = 1.4826 * np.median(np.abs(steps - np.median(steps))) / math.sqrt(2)
    text = best(values)
    assert text.startswith(f"best of 7 evaluations: step 50, validation loss 0.61 (noise {noise:.3g})")
    assert text.endswith("; the last one, 0.62, is no worse by more than the noise explains")


def test_of_evaluations_that_follow_a_curve_the_noise_is_at_most_that() -> None:
    assert "step 60, validation loss 0.255 (noise at most 0." in best([16.1, 5.0, 1.5, 0.6, 0.3, 0.255])
    text = best([16.1, 5.0, 1.5, 0.6, 0.3, 0.35])
    assert "step 50, validation loss 0.3 (noise at most " in text
    assert text.endswith("; the last one is 0.35")
    generator = np.random.default_rng(0)
    noisy = [best(list(2.0 - 0.02 * np.arange(20) + generator.normal(size=20))) for _ in range(50)]
    assert sum("at most" in text for text in noisy) < 15


def test_the_last_one_is_named_and_left_to_the_rules() -> None:
    text = best([2.0, 1.1, 0.8, 1.0, 1.21, 1.4, 1.6], [2.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.02])
    assert text.startswith("best of 7 evaluations: step 29, validation loss 0.8 (noise ")
    assert text.endswith("); the last one is 1.6")
    assert best([0.5, 0.6, 0.7]).endswith(f"validation loss 0.5 ({FEW}); the last one is 0.7")


def test_of_an_accuracy_more_is_better() -> None:
    assert best([0.5, 0.7, 0.6], name="val_accuracy").startswith("best of 3 evaluations: step 20, val_accuracy 0.7 (")


def test_a_test_set_after_the_last_validation_is_not_part_of_it() -> None:
    of_validation = [[3.0, 1.0], [2.5, 0.5], [2.0, 0.6]]
    text = best([*of_validation[:2], [*of_validation[2], 0.1, 0.1, 0.1]])
    assert text == best(of_validation) == f"best of 3 evaluations: step 30, validation loss 1.3 ({FEW})"


def test_an_evaluation_after_the_last_of_two_is_not_part_of_it() -> None:
    of_validation = [[3.0, 1.0], [2.0, 0.6]]
    text = best([of_validation[0], [*of_validation[1], 0.2, 0.4]], [2.0, 1.0])
    assert text == best(of_validation, [2.0, 1.0]) == f"best of 2 evaluations: step 19, validation loss 1.3 ({FEW})"
    text = best([0.5, 0.6, [0.8, 0.9]], [2.0, 1.0, 0.5], name="val_accuracy")
    assert text.startswith("best of 3 evaluations: step 29, val_accuracy 0.8 (")


def test_a_sanity_check_before_the_training_says_nothing_of_how_many_batches_there_are() -> None:
    text = best([[9.0], [3.0, 1.0], [2.0, 0.6, 0.1, 0.1]], [math.nan, 2.0, 1.0])
    assert text == f"best of 3 evaluations: step 29, validation loss 1.3 ({FEW})"


@pytest.mark.parametrize("name", ["train/entropy_loss", "losses/value_loss", "train_loss"])
def test_a_loss_of_training_that_is_logged_in_an_evaluation_is_none(name: str) -> None:
    assert best([3.0, 2.0, 1.0], [2.0, 1.0, 0.5], name=name) == ""


def test_the_loss_of_validation_that_the_trainer_logs_is_what_it_compares() -> None:
    infos = {name: TensorInfo(name, (kind,), ()) for name, kind in (("loss", "losses"), ("eval_loss", "metrics"))}
    parts = []
    for number, (batches, logged) in enumerate([([0.5, 0.4], 0.48), ([0.4, 0.2], 0.33)]):
        parts.append(Capture(len(parts), {"loss": {"value": 1.0}}, mode="train", mode_step=number, infos=infos))
        parts += [
            Capture(len(parts), {"loss": {"value": batch}}, mode="eval", mode_step=2 * number + index, infos=infos)
            for index, batch in enumerate(batches)
        ]
        parts.append(Capture(parts[-1].step, {"eval_loss": {"value": logged}}, mode="eval", infos=infos))
    found = [verdict for _, verdict in verdicts(ClosingRemarks(), parts)]
    assert found[-1].product[BEST_EVALUATION] == f"best of 2 evaluations: step 1, eval_loss 0.33 ({FEW})"


def test_a_first_evaluation_of_fewer_batches_says_nothing_of_how_many_there_are() -> None:
    assert best([[9.0], [3.0, 1.0], [1.0, 3.0, 0.5]]) == f"best of 3 evaluations: step 30, validation loss 1.5 ({FEW})"


def test_of_keras_it_is_the_loss_that_keras_compares() -> None:
    infos = {name: TensorInfo(name, (kind,), ()) for name, kind in (("loss", "losses"), ("metrics/loss", "metrics"))}
    parts = []
    for number, (batches, shown) in enumerate([([0.5, 0.4], [0.5, 0.46]), ([0.4, 0.2], [0.4, 0.34])]):
        parts.append(Capture(len(parts), {"loss": {"value": 1.0}}, mode="train", mode_step=number, infos=infos))
        for batch, mean in zip(batches, shown, strict=True):
            values = {"loss": {"value": batch}, "metrics/loss": {"value": mean}}
            parts.append(Capture(len(parts), values, mode="eval", mode_step=len(parts), infos=infos))
    found = [verdict for _, verdict in verdicts(ClosingRemarks(), parts)]
    assert found[-1].product[BEST_EVALUATION] == f"best of 2 evaluations: step 1, val_loss 0.34 ({FEW})"
