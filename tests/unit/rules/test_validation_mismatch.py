"""validation_mismatch: other units, another order of the classes, a single class, other samples each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.tensors.validation_mismatch import ValidationMismatch
from leadline.statistics.bits import fingerprints
from leadline.testing.runs import ArrayStatistics, Capture, Part
from leadline.testing.windows import verdicts

INPUT, LABELS, LOSS = "Net_input_0", "CrossEntropyLoss_input_1", "loss"
RNG = np.random.default_rng(0)
Batch = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Inputs, labels, and the predicted classes."""


def batch(inputs: np.ndarray, labels: Sequence[int] | np.ndarray = (), predicted: Any = None) -> Batch:
    known = np.asarray(labels if len(labels) else np.arange(len(inputs)) % 3)
    return inputs, known, known if predicted is None else np.asarray(predicted)


def run(trained: Sequence[Batch], *evaluations: Sequence[Batch], has_loss: bool = True, dtype: str = "float32") -> Any:
    """Return train steps, the evaluations with a train step after each, and the last verdict on them."""
    steps = [("train", each) for each in trained]
    for evaluation in evaluations:
        steps += [*(("eval", each) for each in evaluation), ("train", trained[0])]
    return verdicts(ValidationMismatch(), list(parts(steps, has_loss=has_loss, dtype=dtype)))[-1][1]


def parts(steps: Sequence[tuple[str, Batch]], *, has_loss: bool, dtype: str) -> list[Part]:
    made: list[Part] = []
    mode_steps = {"train": 0, "eval": 0}
    for step, (mode, (inputs, labels, predicted)) in enumerate(steps):
        infos = {
            INPUT: TensorInfo(INPUT, ("inputs",), inputs.shape, dtype),
            LABELS: TensorInfo(LABELS, ("labels", "crossentropyloss_input"), labels.shape, "int64"),
            LOSS: TensorInfo(LOSS, ("losses",), (), "float64"),
        }
        places = tuple(at for at in range(inputs.ndim) if at != 1)
        matrix = np.zeros((5, 5))
        np.add.at(matrix, (labels, predicted), 1)
        arrays = {
            INPUT: {
                "unit_mean": inputs.mean(places).tolist(),
                "unit_std": inputs.std(places).tolist(),
                "fingerprints": fingerprints(inputs).tolist(),
            },
            LABELS: {"class_counts": np.bincount(labels).tolist(), "confusion": matrix.tolist()},
        }
        values = {INPUT: {"abs_max": float(abs(inputs).max())}}
        if has_loss or mode == "train":
            values[LOSS] = {"value": 1.0}
        stamp = {"mode": mode, "mode_step": mode_steps[mode], "infos": infos}
        made += [Capture(step, values, **stamp), ArrayStatistics(step, arrays, **stamp)]
        mode_steps[mode] += 1
    return made


def normal(*shape: int, mean: float = 0.0, std: float = 1.0) -> np.ndarray:
    return mean + std * RNG.normal(size=shape)


TRAINED = [batch(normal(40, 6)) for _ in range(4)]
IMAGES = [batch(normal(40, 3, 5, 5)) for _ in range(4)]


def test_features_in_raw_units_are_named() -> None:
    raw = normal(80, 6)
    raw[:, 2] = 50 + 30 * raw[:, 2]
    raw[:, 3:5] *= 11
    found = run(TRAINED, [batch(raw)])
    assert isinstance(found, Fired)
    assert found.message.startswith(
        f"{INPUT}: 3 of 6 features of the validation are of another size than in training; "
    )
    assert found.tensors == (INPUT,)
    raw[:, 4] /= 11
    assert run(TRAINED, [batch(raw)]) == Clear({"remarks": []})


@pytest.mark.parametrize("factor", [2.5, 3.5])
def test_channels_of_images_need_less(factor: float) -> None:
    verdict = run(IMAGES, [batch(normal(80, 3, 5, 5, std=1 / factor))])
    assert isinstance(verdict, Fired) == (factor > 3)
    shifted = run(IMAGES, [batch(normal(80, 3, 5, 5, mean=factor))])
    assert isinstance(shifted, Fired) == (factor > 3)


def test_constant_features_and_few_samples_are_not_compared() -> None:
    one, other = np.full((80, 6), 3.0), np.full((80, 6), 300.0)
    assert run([batch(one)] * 2, [batch(other)]) == Clear({"remarks": []})
    assert run(TRAINED, [batch(normal(63, 6, std=100))]) == Clear({"remarks": []})
    assert isinstance(run(TRAINED, [batch(normal(64, 6, std=100))]), Fired)


def test_tokens_are_not_compared() -> None:
    tokens = [batch(RNG.integers(50, size=(40, 6)).astype(float)) for _ in range(3)]
    others = [batch(RNG.integers(5000, size=(80, 6)).astype(float))]
    assert run(tokens, others, dtype="int64") == Clear({"remarks": []})


def relabelled(order: Sequence[int], wrong: int = 0) -> Batch:
    predicted = np.arange(90) % 3
    labels = np.array(order)[predicted]
    predicted[:wrong] = (predicted[:wrong] + 1) % 3
    return batch(normal(90, 6), labels, predicted)


def test_another_order_of_the_classes_is_named() -> None:
    found = run(TRAINED, [relabelled([1, 2, 0])])
    assert isinstance(found, Fired)
    assert found.message == (
        f"{LABELS}: the validation accuracy is 0, and would be 1 if each label were the class that is mostly predicted "
        "for it (0 is predicted as 2), as if the classes were numbered in another order than in training"
    )
    assert isinstance(run(TRAINED, [relabelled([1, 0, 2])]), Fired)
    assert run(TRAINED, [relabelled([0, 1, 2], wrong=20)]) == Clear({"remarks": []})


def test_a_model_that_guesses_has_no_order() -> None:
    guesses = batch(normal(90, 6), np.arange(90) % 3, RNG.integers(3, size=90))
    assert run(TRAINED, [guesses]) == Clear({"remarks": []})
    one_class = batch(normal(90, 6), np.arange(90) % 3, np.zeros(90, int))
    assert run(TRAINED, [one_class]) == Clear({"remarks": []})
    untrained = [batch(normal(60, 6), np.arange(60) % 3, RNG.integers(3, size=60))] * 2
    assert run(untrained, [relabelled([1, 2, 0])]) == Clear({"remarks": []})


def test_a_single_class_is_named() -> None:
    found = run(TRAINED, [batch(normal(30, 6), [2] * 30), batch(normal(30, 6), [2] * 30)])
    assert isinstance(found, Fired)
    assert (
        found.message
        == f"{LABELS}: all 60 labels of the validation are of class 2, and those of the training of 3 classes"
    )
    assert run(TRAINED, [batch(normal(49, 6), [2] * 49)]) == Clear({"remarks": []})
    assert run(TRAINED, [batch(normal(60, 6), [2] * 59 + [1])]) == Clear({"remarks": []})
    alike = [batch(normal(40, 6), [2] * 40)] * 2
    assert run(alike, [batch(normal(60, 6), [2] * 60)]) == Clear({"remarks": []})


def of_classes(*counts: int) -> Batch:
    labels = np.repeat(np.arange(len(counts)), counts)
    return batch(normal(len(labels), 6), labels)


def test_classes_that_training_does_not_know_are_named() -> None:
    trained = [of_classes(14, 13, 13)] * 6
    found = run(trained, [of_classes(27, 27, 26, 20)])
    assert isinstance(found, Fired)
    assert found.message == (
        f"{LABELS}: 20 of 100 labels of the validation are of class 3, and none of 280 labels of the training that "
        "were captured"
    )
    several = run(trained, [of_classes(30, 30, 0, 20, 20)])
    assert isinstance(several, Fired)
    assert "40 of 100 labels of the validation are of the classes 3 and 4, and none" in several.message


def test_a_class_may_be_rare_or_come_later() -> None:
    trained = [of_classes(14, 13, 13)] * 6
    assert run(trained, [of_classes(31, 31, 30, 8)]) == Clear({"remarks": []})
    assert run([of_classes(14, 13, 13)] * 3, [of_classes(27, 27, 26, 20)]) == Clear({"remarks": []})
    in_turn = [of_classes(*[0] * (at % 3), 40) for at in range(6)]
    assert run(in_turn, [of_classes(27, 27, 26, 20)]) == Clear({"remarks": []})


def test_other_samples_each_time_are_remarked() -> None:
    first, second = normal(100, 6), normal(100, 6)
    verdict = run(TRAINED, [batch(first)], [batch(second)])
    assert isinstance(verdict, Clear)
    assert verdict.product["remarks"][0].startswith(
        "100 % of the 100 samples of an evaluation were not in the one before"
    )
    for same in (first, RNG.permutation(first), first[:80], np.concatenate([first[:91], second[:9]])):
        assert run(TRAINED, [batch(first)], [batch(same)]) == Clear({"remarks": []})


def test_an_evaluation_that_was_not_captured_as_a_whole_is_not_compared() -> None:
    many = [batch(normal(4, 6), [2] * 4) for _ in range(201)]
    assert isinstance(run(TRAINED, many[:199]), Fired)
    assert run(TRAINED, many) == Clear({"remarks": []})


def test_only_the_model_that_is_called_first_is_given_data() -> None:
    made: list[Part] = []
    for step in range(8):
        mode, scale = ("eval", 100.0) if step in (4, 6) else ("train", 1.0)
        infos = {name: TensorInfo(name, ("inputs",), (80, 2), "float32") for name in (INPUT, "Criterion_input_0")}
        infos[LOSS] = TensorInfo(LOSS, ("losses",), (), "float64")
        made.append(
            Capture(
                step,
                {INPUT: {"abs_max": 3.0}, "Criterion_input_0": {"abs_max": scale}, LOSS: {"value": 1.0}},
                mode=mode,
                infos=infos,
            )
        )
        arrays = {
            name: {
                "unit_mean": [0.0, 0.0],
                "unit_std": [size, size],
                "fingerprints": fingerprints(np.arange(80.0)[:, None] + step * (size - 1)).tolist(),
            }
            for name, size in ((INPUT, 1.0), ("Criterion_input_0", scale))
        }
        made.append(ArrayStatistics(step, arrays, mode=mode, infos=infos))
    assert verdicts(ValidationMismatch(), made)[-1][1] == Clear({"remarks": []})


def test_undecided_without_an_evaluation_with_a_loss() -> None:
    why: Verdict = Undecided("no evaluation with a loss was captured whose inputs or labels can be compared")
    assert run(TRAINED) == why
    assert run(TRAINED, [batch(normal(80, 6, std=100))], has_loss=False) == why
    step = [("train", TRAINED[0]), ("eval", batch(normal(80, 6, std=100)))]
    last = verdicts(ValidationMismatch(), parts(step, has_loss=True, dtype="float32"))[-1][1]
    assert last == Undecided("evaluations are compared at the next captured train step")


def test_values_that_are_no_numbers_are_skipped() -> None:
    broken = normal(80, 6, std=100)
    broken[3, 2] = np.nan
    verdict = run(TRAINED, [batch(broken)])
    assert verdict == Clear({"remarks": []})
