"""Scores of predictions: by class, ROC curves, and errors by label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

LABEL_BINS: Final = 10
_MAX_POINTS: Final = 400


@dataclass(frozen=True, slots=True)
class Scores:
    """Precision, recall and F1, each a ratio; 0 if the denominator is 0."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True)
class Curve:
    """A ROC curve from (0, 0) to (1, 1), with the area under it."""

    false_positive: Floats
    """Ascending, ``(points,)``."""
    true_positive: Floats
    auc: float


def by_class(matrix: Floats) -> list[Scores]:
    """Compute precision, recall and F1 of each class.

    Shape:
        matrix: ``(classes, classes)`` counts, rows are labels, columns predictions.
    Source:
        As ``sklearn.metrics.precision_recall_fscore_support`` with ``zero_division=0``.
    """
    correct = np.diag(matrix)
    return [_scores(correct[index], matrix[:, index].sum(), matrix[index].sum()) for index in range(len(matrix))]


def averages(matrix: Floats) -> dict[str, Scores]:
    """Compute micro, macro and weighted averages over the classes that occur as a label or a prediction.

    Shape:
        matrix: ``(classes, classes)`` counts, rows are labels, columns predictions.
    Source:
        As in scikit-learn: micro over all samples, macro the unweighted mean over classes, weighted by labels.
    """
    by_label = by_class(matrix)
    labels = matrix.sum(axis=1)
    seen = np.flatnonzero(labels + matrix.sum(axis=0))
    if not seen.size:
        return {}
    table = np.array([(by_label[index].precision, by_label[index].recall, by_label[index].f1) for index in seen])
    share = float(np.trace(matrix) / matrix.sum())
    weighted = table.T @ (labels[seen] / labels.sum())
    return {
        "micro": Scores(share, share, share),
        "macro": Scores(*map(float, table.mean(axis=0))),
        "weighted": Scores(*map(float, weighted)),
    }


def recall_by_class(matrix: Floats) -> Floats:
    """Compute the recall of each class.

    Shape:
        matrix: ``(classes, classes)``; result: ``(classes,)``.
    Not a number:
        NaN for a class without labels.
    """
    labels = matrix.sum(axis=1)
    return _ratios(np.diag(matrix), labels)


def roc(is_positive: Array, scores: Array) -> Curve | None:
    """Compute the ROC curve of scores, with all points.

    Shape:
        is_positive: ``(samples,)`` of truth values; scores: ``(samples,)``, higher means more likely positive.
    Not a number:
        Samples with a NaN score are ignored. None if all samples or none are positive.
    Source:
        As ``sklearn.metrics.roc_curve`` with ``drop_intermediate=False``; the area by trapezoids.
    """
    known = ~np.isnan(scores)
    positive, finite_scores = np.asarray(is_positive)[known].astype(bool), np.asarray(scores, np.float64)[known]
    total = int(positive.sum())
    if not 0 < total < positive.size:
        return None
    order = np.argsort(finite_scores, kind="stable")[::-1]
    ends = np.append(np.flatnonzero(np.diff(finite_scores[order])), finite_scores.size - 1)
    hits = np.cumsum(positive[order])[ends]
    true = np.append(0.0, hits / total)
    false = np.append(0.0, (ends + 1 - hits) / (positive.size - total))
    return Curve(false, true, _area(true, false))


def roc_of_classes(labels: Array, scores: Array) -> dict[str, Curve]:
    """Compute one ROC curve per class against all others, and one over all decisions, ``micro``.

    Shape:
        labels: ``(samples,)`` classes; scores: ``(samples, classes)``.
    """
    truth = np.asarray(labels)[:, None] == np.arange(scores.shape[1])
    curves = {str(index): roc(truth[:, index], scores[:, index]) for index in range(scores.shape[1])}
    curves["micro"] = roc(truth.ravel(), scores.ravel())
    return {name: curve for name, curve in curves.items() if curve is not None}


def simplify_curve(curve: Curve, limit: int = _MAX_POINTS) -> Curve:
    """Reduce a curve to at most ``limit`` points for drawing; the area is kept.

    Points are chosen evenly along the path from (0, 0) to (1, 1), so that no point is further than ``2 / limit`` away.
    """
    path = curve.false_positive + curve.true_positive
    if path.size <= limit:
        return curve
    indices = np.searchsorted(path, np.linspace(0.0, 2.0, limit - 1))
    kept = np.unique(np.append(0, np.minimum(indices, path.size - 1)))
    return Curve(curve.false_positive[kept], curve.true_positive[kept], curve.auc)


def bin_edges(labels: Array, bins: int = LABEL_BINS) -> Floats:
    """Return the edges of bins of equal width over the finite labels.

    Shape:
        labels: ``(samples,)``; result: ``(bins + 1,)``, or ``(2,)`` if all labels are equal, ``(0,)`` without labels.
    """
    finite = np.asarray(labels, np.float64)[np.isfinite(labels)]
    if not finite.size:
        return np.zeros(0)
    low, high = float(finite.min()), float(finite.max())
    return np.array([low, high]) if low == high else np.linspace(low, high, bins + 1)


def error_by_bin(labels: Array, predictions: Array, edges: Floats) -> Floats:
    """Compute the mean absolute error of the labels in each bin.

    Shape:
        labels, predictions: ``(samples,)``; edges: ``(bins + 1,)`` ascending; result: ``(bins,)``.
    Units:
        Those of the labels.
    Not a number:
        Samples with a non-finite label or prediction are ignored; NaN for a bin without samples.
    """
    truth, predicted = np.asarray(labels, np.float64).ravel(), np.asarray(predictions, np.float64).ravel()
    known = np.isfinite(truth) & np.isfinite(predicted)
    bins = np.clip(np.searchsorted(edges, truth[known], side="right") - 1, 0, len(edges) - 2)
    errors = np.abs(truth[known] - predicted[known])
    counts = np.bincount(bins, minlength=len(edges) - 1)
    sums = np.bincount(bins, errors, minlength=len(edges) - 1)
    return _ratios(sums, counts)


def _scores(correct: float, predicted: float, labels: float) -> Scores:
    precision = float(correct / predicted) if predicted else 0.0
    recall = float(correct / labels) if labels else 0.0
    both = predicted + labels
    return Scores(precision, recall, float(2 * correct / both) if both else 0.0)


def _ratios(parts: Array, wholes: Array) -> Floats:
    """Divide parts by wholes; NaN if the whole is 0."""
    ratios = np.full(len(parts), np.nan)
    np.divide(parts, wholes, out=ratios, where=wholes > 0)
    return ratios


def _area(heights: Floats, places: Floats) -> float:
    return float((np.diff(places) * (heights[1:] + heights[:-1]) / 2).sum())
