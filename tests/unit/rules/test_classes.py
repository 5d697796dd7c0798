"""class_imbalance and confusion: counts of labels and predictions, summed over steps."""

from __future__ import annotations

import math
from typing import Any

import pytest
from generated_runs import arrays_of

from leadline.errors import ConfigurationError, UnknownNameError
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.losses.class_imbalance import ClassImbalance
from leadline.rules.losses.confusion import Confusion
from leadline.rules.rule import Rule
from leadline.testing.runs import Capture, RawTensors
from leadline.testing.windows import verdicts

LABELS = "CrossEntropyLoss_input_1"
INFOS = {LABELS: TensorInfo(LABELS, ("labels",), (8,), "int64")}


def judge(rule: Rule, *steps: dict[str, list[Any]], mode: str = "train") -> list[Verdict]:
    parts: list[Capture | RawTensors] = []
    for step, vectors in enumerate(steps):
        named = {f"{LABELS}@{name}": values for name, values in vectors.items()}
        parts += [Capture(step, {LABELS: {"max": 1.0}}, infos=INFOS, mode=mode), arrays_of(step, named, mode=mode)]
    return [verdict for _, verdict in verdicts(rule, parts)]


def test_labels_of_all_captures_are_summed() -> None:
    rule = ClassImbalance(samples=220)
    results = judge(rule, {"class_counts": [100.0]}, *[{"class_counts": [100.0, 7.0]}] * 5)
    assert [type(verdict) for verdict in results] == [Undecided] * 5 + [Fired]
    assert results[0].why == "100 of 220 labels needed"
    assert results[2].why == "class 1 has 14 of 314 labels, too few to tell"
    assert results[5].message == f"{LABELS}: class 0 has 600 of 635 labels, class 1 only 35 (1 to 17.1)"


def test_clear_at_the_ratio_undecided_above_and_fired_three_deviations_above() -> None:
    rule = ClassImbalance(samples=11)
    assert judge(rule, {"class_counts": [1.0, 0.0, 10.0]}) == [Clear()]
    assert judge(rule, {"class_counts": [1.0, 0.0, 11.0]})[0].stage == "suspected"
    beyond = 100.0 * math.exp(3 * math.sqrt(1 / 1e9 + 1 / 10))
    for count, kind in ((math.floor(beyond), Undecided), (math.ceil(beyond) + 10, Fired)):
        deviation = 3 * math.sqrt(1 / count + 1 / 10)
        assert isinstance(judge(rule, {"class_counts": [10.0, float(count)]})[0], kind)
        assert (math.log(count / 100) > deviation) == (kind is Fired)


def test_a_class_that_is_mostly_mispredicted() -> None:
    def mispredicted(share: float, labels: float) -> Verdict:
        row = [labels * (1 - share), labels * share]
        matrix = {"class_counts": [labels, labels], "confusion": [row, [0.0, labels]]}
        return judge(ClassImbalance(samples=10), *[{"class_counts": [labels, labels]}] * 100, matrix)[-1]

    assert mispredicted(0.5, 100.0) == Clear()
    assert mispredicted(0.75, 100.0) == Clear()
    fired = mispredicted(0.75, 10000.0)
    assert isinstance(fired, Fired)
    assert fired.message == f"{LABELS}: class 0 is mispredicted for 75 % of its 10,000 labels, mostly as class 1"


def test_mispredictions_before_step_100_are_not_counted() -> None:
    bad = {"class_counts": [500.0, 500.0], "confusion": [[0.0, 500.0], [500.0, 0.0]]}
    results = judge(ClassImbalance(), *[bad] * 101)
    assert [type(verdict) for verdict in results] == [Clear] * 100 + [Fired]


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_few_labels_of_balanced_classes_never_fire(classes: int) -> None:
    import numpy as np

    generator = np.random.default_rng(0)
    for _ in range(20):
        batches = [{"class_counts": list(map(float, generator.multinomial(16, [1 / classes] * classes)))}] * 40
        assert not any(isinstance(verdict, Fired) for verdict in judge(ClassImbalance(samples=50), *batches))


def test_a_matrix_is_evaluated_from_ten_labels_per_class() -> None:
    good = {"confusion": [[9.0, 0.0], [1.0, 9.0]]}
    results = judge(Confusion(start_step=0), good, good, good)
    assert results[0] == Undecided("1 more labels are needed for a meaningful matrix")
    assert [type(verdict) for verdict in results[1:]] == [Clear, Undecided]


def test_rows_and_columns_are_clear_on_their_bounds() -> None:
    assert judge(Confusion(start_step=0), {"confusion": [[9.0, 1.0], [1.0, 9.0]]}) == [Clear()]
    (row,) = judge(Confusion(start_step=0), {"confusion": [[8.0, 2.0], [0.0, 20.0]]})
    assert isinstance(row, Fired)
    assert "80 % of the 10 labels of class 0 are predicted as it, less than 90 %; 2 as class 1" in row.message
    (column,) = judge(Confusion(start_step=0, min_diag=0.5), {"confusion": [[8.0, 2.0], [0.0, 16.0]]})
    assert isinstance(column, Fired)
    assert "11 % of what is predicted as class 1 is class 0, more than 10 %" in column.message


def test_small_classes_are_skipped() -> None:
    assert judge(Confusion(start_step=0), {"confusion": [[0.0, 1.0], [0.0, 99.0]]}) == [Clear()]


def test_eval_steps_are_preferred() -> None:
    bad = {f"{LABELS}@confusion": [[0.0, 10.0], [10.0, 0.0]]}
    parts: list[Capture | RawTensors] = []
    for step, mode in enumerate(("train", "eval", "train")):
        parts += [Capture(step, {LABELS: {"max": 1.0}}, infos=INFOS, mode=mode), arrays_of(step, bad, mode=mode)]
    results = [type(verdict) for _, verdict in verdicts(Confusion(start_step=0), parts)]
    assert results == [Fired, Fired, Undecided]


def test_steps_before_the_start_step_are_not_evaluated() -> None:
    bad, good = {"confusion": [[0.0, 10.0], [10.0, 0.0]]}, {"confusion": [[10.0, 0.0], [0.0, 10.0]]}
    early = Undecided("labels are counted from step 2")
    assert judge(Confusion(start_step=2), bad, bad, good) == [early, early, Clear()]


def test_every_eval_step_is_captured() -> None:
    assert [need.every for need in Confusion().needs().tensors if "eval" in need.modes] == [1, 1]


def test_the_number_of_classes_can_be_set() -> None:
    (wide,) = judge(Confusion(start_step=0, category_no=3), {"confusion": [[10.0, 0.0], [0.0, 10.0]]})
    assert wide == Undecided("10 more labels are needed for a meaningful matrix")
    assert judge(
        Confusion(start_step=0, category_no=2), {"confusion": [[10.0, 0.0, 9.0], [0.0, 10.0, 0.0], [9.0, 0.0, 0.0]]}
    ) == [Clear()]


def test_no_labels_at_all() -> None:
    assert isinstance(judge(ClassImbalance(), {"class_counts": []})[0], Undecided)
    assert isinstance(judge(Confusion(start_step=0), {"confusion": [[0.0, 0.0], [0.0, 0.0]]})[0], Undecided)


def test_labels_of_each_worker_are_counted_separately() -> None:
    parts: list[Capture | RawTensors] = []
    for worker in ("rank0-1", "rank1-2"):
        parts += [
            Capture(0, {LABELS: {"max": 1.0}}, infos=INFOS, worker=worker),
            arrays_of(0, {f"{LABELS}@class_counts": [600.0, 10.0]}, worker),
        ]
    assert isinstance(verdicts(ClassImbalance(samples=611), parts)[0][1], Undecided)
    assert isinstance(verdicts(ClassImbalance(samples=610), parts)[0][1], Fired)


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="threshold_imbalance must be a number >= 1"):
        ClassImbalance(threshold_imbalance=math.nextafter(1.0, 0))
    with pytest.raises(ConfigurationError, match="labels_regex"):
        ClassImbalance(labels_regex="(")
    with pytest.raises(ConfigurationError, match="category_no must be none or an integer >= 2, not 1"):
        Confusion(category_no=1)
    with pytest.raises(UnknownNameError, match="did you mean 'labels'"):
        Confusion(labels_collection="label")
