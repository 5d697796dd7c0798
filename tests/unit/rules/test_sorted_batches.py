"""sorted_batches: the labels of a step are one batch, and a single batch may be another part of the loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, NotApplicable, Verdict
from leadline.rules.losses.sorted_batches import SortedBatches
from leadline.testing.runs import ArrayStatistics
from leadline.testing.windows import verdicts

STEPS = (0, 1, 2, 3, 4, 5, 10, 20, 30, 40)
REAL, FAKE = np.ones(16, int), np.zeros(16, int)


def judge(loop: Iterable[Sequence[np.ndarray]], criterion: str = "BCEWithLogitsLoss") -> Verdict:
    """Judge a loop by the labels of the calls of its criterion in each step."""
    parts = []
    for step, calls in zip(STEPS, loop, strict=True):
        named = {f"{criterion}_input_{2 * at + 1}": call for at, call in enumerate(calls)}
        infos = {name: TensorInfo(name, ("labels", "layers"), call.shape) for name, call in named.items()}
        counts = {name: {"class_counts": np.bincount(call).astype(float).tolist()} for name, call in named.items()}
        parts.append(ArrayStatistics(step, counts, infos=infos))
    return verdicts(SortedBatches(), parts)[-1][1]


def test_a_data_set_in_the_order_of_its_classes_fires() -> None:
    labels = np.repeat(np.arange(5), 32).reshape(10, 1, 16)
    fired = judge(labels, "CrossEntropyLoss")
    assert isinstance(fired, Fired)
    assert fired.message == (
        "CrossEntropyLoss_input_1: 10 of 10 batches hold labels of a single class, of 5 classes in all"
    )
    shuffled = np.random.default_rng(0).permutation(labels.ravel()).reshape(labels.shape)
    assert judge(shuffled, "CrossEntropyLoss") == Clear()


def test_batches_of_a_class_each_in_any_order_fire() -> None:
    assert isinstance(judge([[np.full(16, each)] for each in np.random.default_rng(0).permutation(10)]), Fired)


def test_micro_batches_of_sorted_data_fire() -> None:
    assert isinstance(judge(np.repeat(np.arange(5), 64).reshape(10, 4, 8)), Fired)


@pytest.mark.parametrize(
    "loop",
    [
        [[FAKE, REAL]] * 10,  # of a discriminator, in one backward pass
        [[FAKE, REAL], *[[REAL]] * 9],  # the steps after the first begin with the generator
        [[FAKE], *[[REAL]] * 9],  # the same, where each half has a backward pass of its own
        [[REAL, FAKE], [REAL], [REAL]] * 3 + [[REAL, FAKE]],  # several steps of the generator
    ],
)
def test_real_and_generated_samples_are_in_no_order(loop: list[list[np.ndarray]]) -> None:
    assert judge(loop) == Clear()


@pytest.mark.parametrize("loss", ["MSELoss", "Net.smooth_l1_loss", "l2loss0", "mean_squared_error", "log_cosh"])
def test_signs_of_a_regression_are_no_classes(loss: str) -> None:
    assert isinstance(judge([[REAL], [FAKE]] * 5, loss), NotApplicable)


def test_criteria_are_judged_apart() -> None:
    parts = []
    for at, step in enumerate(STEPS):
        counts = {"Net.cross_entropy_input_1": [16.0 * (at < 5), 16.0 * (at >= 5)], "BCELoss_input_1": [8.0, 8.0]}
        infos = {name: TensorInfo(name, ("labels", "layers"), (16,)) for name in counts}
        parts.append(
            ArrayStatistics(step, {name: {"class_counts": each} for name, each in counts.items()}, infos=infos)
        )
    fired = verdicts(SortedBatches(), parts)[-1][1]
    assert isinstance(fired, Fired)
    assert fired.tensors == ("Net.cross_entropy_input_1",)
