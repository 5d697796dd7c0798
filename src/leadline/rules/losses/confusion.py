"""The rule confusion."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.losses.class_counts import added
from leadline.rules.rule import Rule
from leadline.rules.selection import check_pattern, check_selection, select
from leadline.rules.trees.booster_detection import LABELS

if TYPE_CHECKING:
    from leadline.reader.window import TensorVector, Window
    from leadline.rules.losses.class_counts import Counts

_ENOUGH = 10
"""Labels a class, on average, before a matrix is judged; and those a row or column must have."""
_START = 100
_START_OF_BOOSTERS = 10
_PREFERRED = ("eval", "train", "global")
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Key = tuple[str, str, str]


class Confusion(Rule, frozen=True, kw_only=True):
    """Fires when a class is recognized too seldom, or too much of what is predicted as a class is not of it.

    Why it matters:
        Accuracy hides which classes are mistaken for which; the matrix of labels and predictions shows it.
    How it decides:
        Labels (rows) and predictions (columns) are counted over the captured steps until there are 10 labels a
        class on average; then ``M[i][i] / sum_j M[i][j] < min_diag`` fires (of the labels i too few are predicted
        as i), and ``M[j][i] / sum_j M[j][i] > max_off_diag`` for j other than i (of what is predicted as i too much
        is j). Rows and columns with less than 10 are left out. Then the count begins anew. Eval steps are judged
        (each is captured) once there are any, before that train steps; none before ``start_step``.
    Not a number:
        Labels are whole numbers; a prediction that is NaN is taken for the largest, as argmax has it.
    Blind spots:
        A model that has only begun confuses everything: raise ``start_step`` where 100 steps (10 boosting rounds) are
        a beginning. The defaults are strict for hard tasks and for many classes. The matrix is that of calls of a
        classification loss, or of the set that a booster is evaluated on; of more than 1,000 classes the first 1,000
        are counted.
    Args:
        category_no: Number of classes, >= 2; none: as many as were met in labels or predictions.
        labels: Regular expression (``re.search``) for the labels, judged as well.
        predictions: Regular expression (``re.search``) for predictions; none are captured for this rule, since a
            loss call's matrix is made from its own. It is there for Amazon's configurations.
        labels_collection: The collection of labels that is judged.
        predictions_collection: As ``predictions``.
        min_diag: Least share of a class's labels that is predicted as it, >= 0 and <= 1.
        max_off_diag: Largest share of what is predicted as a class that may be of another one, >= 0 and <= 1.
        start_step: The global step from which on labels are counted, >= 0; none: 100, and 10 of a booster, whose
            every step has seen all of the data.
    Source:
        SageMaker developer guide, "Confusion"; ``start_step`` is ours. The guide divides by the sum of the diagonal,
        which no balanced model of three classes meets: ours is by rows and by columns.
    """

    category_no: Annotated[int, msgspec.Meta(ge=2)] | None = None
    labels: str = "labels"
    predictions: str = "predictions"
    labels_collection: str = "labels"
    predictions_collection: str = "predictions"
    min_diag: _Share = 0.9
    max_off_diag: _Share = 0.1
    start_step: Annotated[int, msgspec.Meta(ge=0)] | None = None

    def check(self) -> None:
        check_pattern(self.name, "labels", self.labels)
        check_pattern(self.name, "predictions", self.predictions)
        check_selection(self.name, (self.labels_collection, self.predictions_collection), None)

    def needs(self) -> Needs:
        training = select((self.labels_collection,), (self.labels,), ("confusion",), modes=("train", "global"))
        return Needs((*training, *(replace(each, modes=("eval",), every=1) for each in training)))

    def remember(self, memory: Any, window: Window) -> dict[_Key, Counts]:
        matrices: dict[_Key, Counts] = {
            key: each for key, each in (memory or {}).items() if each.sum() < self._labels_needed(each)
        }
        for vector in self._begun(window):
            matrices[_key(vector)] = added(matrices.get(_key(vector)), self._sized(vector.values))
        return matrices

    def evaluate(self, window: Window) -> Verdict:
        if window.mode != next((each for each in _PREFERRED if each in window.modes()), window.mode):
            return Undecided(f"steps of {window.mode} are not judged where there are eval steps")
        begun = self._begun(window)
        if not begun:
            first = min(self._start_of(each) for each in window.vectors("confusion"))
            return Undecided(f"labels are counted from step {first:,} on")
        least, whole = 0.0, []
        for each in begun:
            matrix = window.memory[_key(each)]
            least = max(least, self._labels_needed(matrix) - float(matrix.sum()))
            if matrix.sum() >= self._labels_needed(matrix):
                whole.append((each, matrix))
        if not whole:
            return Undecided(f"{math.ceil(least):,} more labels were needed for a matrix that says something")
        for vector, matrix in whole:
            fired = self._diagonal(vector, matrix) or self._off_diagonal(vector, matrix)
            if fired is not None:
                return fired
        return Undecided("part of the labels at this step was lost") if window.is_thinned else Clear()

    def _begun(self, window: Window) -> list[TensorVector]:
        """The matrices of a step that is late enough."""
        return [each for each in window.vectors("confusion") if window.step >= self._start_of(each)]

    def _start_of(self, vector: TensorVector) -> int:
        if self.start_step is not None:
            return self.start_step
        return _START_OF_BOOSTERS if vector.tensor == LABELS else _START

    def _labels_needed(self, matrix: Counts) -> int:
        return _ENOUGH * len(matrix)

    def _sized(self, matrix: Counts) -> Counts:
        """Of as many classes as there are said to be."""
        import numpy as np

        if self.category_no is None:
            return matrix
        sized = np.zeros((self.category_no, self.category_no))
        kept = matrix[: self.category_no, : self.category_no]
        sized[: kept.shape[0], : kept.shape[1]] = kept
        return sized

    def _diagonal(self, vector: TensorVector, matrix: Counts) -> Fired | None:
        rows = matrix.sum(axis=1)
        shares = {i: float(matrix[i, i] / rows[i]) for i in range(len(matrix)) if rows[i] >= _ENOUGH}
        worst = min(shares, key=lambda each: shares[each], default=None)
        if worst is None or shares[worst] >= self.min_diag:
            return None
        other = _largest_beside(matrix[worst], worst)
        return Fired(
            f"{vector.tensor}: {shares[worst]:.0%} of the {rows[worst]:,.0f} labels of class {worst} are predicted as "
            f"it, less than {self.min_diag:.0%}; {matrix[worst, other]:,.0f} as class {other}",
            tensors=(vector.tensor,),
            evidence={
                "class": worst,
                "recognized_share": shares[worst],
                "labels": float(rows[worst]),
                "mostly_as": other,
                "threshold": self.min_diag,
            },
            suggestion=f"a look at examples of class {worst} that are taken for class {other}, or a loss weighted by "
            "class; usually the two are alike, the class is rare or mislabelled, or the training has only begun",
            worker=vector.worker,
        )

    def _off_diagonal(self, vector: TensorVector, matrix: Counts) -> Fired | None:
        columns = matrix.sum(axis=0)
        shares = {
            (j, i): float(matrix[j, i] / columns[i])
            for i in range(len(matrix))
            if columns[i] >= _ENOUGH
            for j in range(len(matrix))
            if j != i
        }
        worst = max(shares, key=lambda each: shares[each], default=None)
        if worst is None or shares[worst] <= self.max_off_diag:
            return None
        label, predicted = worst
        return Fired(
            f"{vector.tensor}: {shares[worst]:.0%} of what is predicted as class {predicted} is class {label}, more "
            f"than {self.max_off_diag:.0%}",
            tensors=(vector.tensor,),
            evidence={
                "class": label,
                "predicted_as": predicted,
                "share": shares[worst],
                "predictions": float(columns[predicted]),
                "threshold": self.max_off_diag,
            },
            suggestion=f"a look at examples of class {label} that are taken for class {predicted}, or more of them in "
            "the training set; usually the two are alike, or one class is so frequent that guessing it pays",
            worker=vector.worker,
        )


def _largest_beside(row: Counts, index: int) -> int:
    beside = row.copy()
    beside[index] = -1.0
    return int(beside.argmax())


def _key(vector: TensorVector) -> _Key:
    return vector.worker, vector.tensor, vector.mode
