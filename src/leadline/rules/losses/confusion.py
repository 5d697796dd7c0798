"""The rule confusion."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from leadline.records.formatting import share as percent
from leadline.rules import Advice, Fired, Needs, Rule, TensorVector, Undecided, Verdict, Window
from leadline.rules.bounds import NonNegativeInt, Share
from leadline.rules.losses.class_counts import add_counts, start_step
from leadline.rules.messages import clear_if_complete, fired
from leadline.rules.selection import check_pattern, check_selection, select

if TYPE_CHECKING:
    from leadline.rules.losses.class_counts import Counts

_MIN_LABELS = 10
"""Labels per class, on average, before a matrix is evaluated; and the minimum of a row or column."""
_PREFERRED = ("eval", "train", "global")
_Key = tuple[str, str, str]
_MISSED: Final = Advice(
    "inspecting examples of class {worst} that are taken for class {other}, or a loss weighted by class; usually the "
    "two are alike, the class is rare or mislabelled, or the training has only just begun",
    "worst",
    "other",
)
_CONFUSED: Final = Advice(
    "inspecting examples of class {label} that are taken for class {predicted}, or more of them in the training set; "
    "usually the two are alike, or one class is so frequent that guessing it pays",
    "label",
    "predicted",
)


class Confusion(Rule, frozen=True, kw_only=True):
    """Fires when too few labels of a class are recognized, or too many predictions of a class are wrong.

    Why it matters:
        Accuracy hides which classes are confused with each other; the matrix of labels and predictions shows it.
    How it decides:
        Labels (rows) and predictions (columns) are counted over the captured steps until there are 10 labels per
        class on average. Then it fires if ``M[i][i] / sum_j M[i][j] < min_diag`` (too few labels of class i are
        predicted as i), or if ``M[j][i] / sum_j M[j][i] > max_off_diag`` for j other than i (too many predictions
        of class i are labels of class j). Rows and columns with fewer than 10 labels are skipped. Then the counts
        are reset. If there are eval steps (each of them is captured), they are evaluated instead of train steps.
        Steps before ``start_step`` are not counted.
    Not a number:
        Labels are whole numbers; a prediction of NaN counts as the largest one, as in argmax.
    Blind spots:
        Early in a training everything is confused: raise ``start_step`` if 100 steps (10 boosting rounds) are too
        few. The defaults are strict for hard tasks and for many classes. The matrix is that of classification loss
        calls, or of the evaluation set of a booster; with more than 1,000 classes the first 1,000 are counted.
    Args:
        category_no: Number of classes, >= 2; none: the classes found in labels or predictions.
        labels: Regular expression (``re.search``) for the labels, evaluated in addition to the collection.
        predictions: Regular expression (``re.search``) for predictions; none are captured for this rule, since the
            matrix of a loss call is made from its own. It exists for SageMaker configurations.
        labels_collection: The collection of labels that is evaluated.
        predictions_collection: As ``predictions``.
        min_diag: Smallest share of a class's labels that must be predicted correctly, >= 0 and <= 1.
        max_off_diag: Largest share of the predictions of a class that may belong to another one, >= 0 and <= 1.
        start_step: The train step from which labels are counted, >= 0; none: 100, or 10 for a booster, since each
            of its steps uses all of the data.
    Source:
        SageMaker developer guide, "Confusion"; ``start_step`` is ours. The guide divides by the sum of the
        diagonal, a condition that no balanced model of three classes meets: ours divides by rows and by columns.
    """

    category_no: Annotated[int, msgspec.Meta(ge=2)] | None = None
    labels: str = "labels"
    predictions: str = "predictions"
    labels_collection: str = "labels"
    predictions_collection: str = "predictions"
    min_diag: Share = 0.9
    max_off_diag: Share = 0.1
    start_step: NonNegativeInt | None = None

    def check(self) -> None:
        check_pattern(self.name, "labels", self.labels)
        check_pattern(self.name, "predictions", self.predictions)
        check_selection(self.name, (self.labels_collection, self.predictions_collection), None)

    def needs(self) -> Needs:
        training = select((self.labels_collection,), (self.labels,), ("confusion",), modes=("train", "global"))
        return Needs((*training, *(replace(need, modes=("eval",), every=1) for need in training)))

    def remember(self, memory: Any, window: Window) -> dict[_Key, Counts]:
        matrices: dict[_Key, Counts] = {
            key: matrix for key, matrix in (memory or {}).items() if matrix.sum() < self._labels_needed(matrix)
        }
        for vector in self._late_enough(window):
            matrices[_key(vector)] = add_counts(matrices.get(_key(vector)), self._sized(vector.values))
        return matrices

    def evaluate(self, window: Window) -> Verdict:
        if window.mode != next((mode for mode in _PREFERRED if mode in window.modes()), window.mode):
            return Undecided(f"{window.mode} steps are not evaluated if there are eval steps")
        vectors = self._late_enough(window)
        if not vectors:
            first = min(self._start_step(vector) for vector in window.vectors("confusion"))
            return Undecided(f"labels are counted from step {first:,}")
        missing, complete = 0.0, []
        for vector in vectors:
            matrix = window.memory[_key(vector)]
            missing = max(missing, self._labels_needed(matrix) - float(matrix.sum()))
            if matrix.sum() >= self._labels_needed(matrix):
                complete.append((vector, matrix))
        if not complete:
            return Undecided(f"{math.ceil(missing):,} more labels are needed for a meaningful matrix")
        for vector, matrix in complete:
            finding = self._diagonal(vector, matrix) or self._off_diagonal(vector, matrix)
            if finding is not None:
                return finding
        return clear_if_complete(window, "labels")

    def _late_enough(self, window: Window) -> list[TensorVector]:
        """Return the matrices of this step that are not before their start step."""
        return [vector for vector in window.vectors("confusion") if window.step >= self._start_step(vector)]

    def _start_step(self, vector: TensorVector) -> int:
        return start_step(vector) if self.start_step is None else self.start_step

    def _labels_needed(self, matrix: Counts) -> int:
        return _MIN_LABELS * len(matrix)

    def _sized(self, matrix: Counts) -> Counts:
        """Return the matrix with the configured number of classes."""
        import numpy as np

        if self.category_no is None:
            return matrix
        sized = np.zeros((self.category_no, self.category_no))
        kept = matrix[: self.category_no, : self.category_no]
        sized[: kept.shape[0], : kept.shape[1]] = kept
        return sized

    def _diagonal(self, vector: TensorVector, matrix: Counts) -> Fired | None:
        rows = matrix.sum(axis=1)
        shares = {i: float(matrix[i, i] / rows[i]) for i in range(len(matrix)) if rows[i] >= _MIN_LABELS}
        worst = min(shares, key=lambda index: shares[index], default=None)
        if worst is None or shares[worst] >= self.min_diag:
            return None
        other = _largest_other(matrix[worst], worst)
        return fired(
            f"{vector.tensor}: {percent(shares[worst])} of the {rows[worst]:,.0f} labels of class "
            f"{worst} are predicted as "
            f"it, less than {percent(self.min_diag)}; {matrix[worst, other]:,.0f} as class {other}",
            vector,
            advice=_MISSED.given(worst=worst, other=other),
            evidence={
                "class": worst,
                "recognized_share": shares[worst],
                "labels": float(rows[worst]),
                "mostly_as": other,
                "threshold": self.min_diag,
            },
        )

    def _off_diagonal(self, vector: TensorVector, matrix: Counts) -> Fired | None:
        columns = matrix.sum(axis=0)
        shares = {
            (j, i): float(matrix[j, i] / columns[i])
            for i in range(len(matrix))
            if columns[i] >= _MIN_LABELS
            for j in range(len(matrix))
            if j != i
        }
        worst = max(shares, key=lambda index: shares[index], default=None)
        if worst is None or shares[worst] <= self.max_off_diag:
            return None
        label, predicted = worst
        return fired(
            f"{vector.tensor}: {percent(shares[worst])} of what is predicted as class {predicted} is "
            f"class {label}, more "
            f"than {percent(self.max_off_diag)}",
            vector,
            advice=_CONFUSED.given(label=label, predicted=predicted),
            evidence={
                "class": label,
                "predicted_as": predicted,
                "share": shares[worst],
                "predictions": float(columns[predicted]),
                "threshold": self.max_off_diag,
            },
        )


def _largest_other(row: Counts, index: int) -> int:
    others = row.copy()
    others[index] = -1.0
    return int(others.argmax())


def _key(vector: TensorVector) -> _Key:
    return vector.worker, vector.tensor, vector.mode
