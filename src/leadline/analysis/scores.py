"""How good predictions are: by class, on a curve, and by the size of the label; numbers in, numbers out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

LABEL_BINS: Final = 10
_MOST_POINTS: Final = 400


@dataclass(frozen=True, slots=True)
class Scores:
    """Precision, recall and F1, each a ratio; 0 where a denominator is."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True)
class Curve:
    """A ROC curve: from (0, 0) to (1, 1), with the area below it."""

    false_positive: Floats
    """Ascending, ``(points,)``."""
    true_positive: Floats
    auc: float


def by_class(matrix: Floats) -> list[Scores]:
    """Precision, recall and F1 of each class.

    Shape:
        matrix: ``(classes, classes)`` counts, rows are labels, columns predictions.
    Source:
        As ``sklearn.metrics.precision_recall_fscore_support`` with ``zero_division=0``.
    """
    right = np.diag(matrix)
    return [_scores(right[each], matrix[:, each].sum(), matrix[each].sum()) for each in range(len(matrix))]


def averages(matrix: Floats) -> dict[str, Scores]:
    """Micro, macro and weighted averages over the classes that occur as a label or a prediction.

    Shape:
        matrix: ``(classes, classes)`` counts, rows are labels, columns predictions.
    Source:
        As scikit-learn has them: micro over all samples, macro the plain mean over classes, weighted by labels.
    """
    each = by_class(matrix)
    labels = matrix.sum(axis=1)
    seen = np.flatnonzero(labels + matrix.sum(axis=0))
    if not seen.size:
        return {}
    table = np.array([(each[at].precision, each[at].recall, each[at].f1) for at in seen])
    share = float(np.trace(matrix) / matrix.sum())
    weighted = table.T @ (labels[seen] / labels.sum())
    return {
        "micro": Scores(share, share, share),
        "macro": Scores(*map(float, table.mean(axis=0))),
        "weighted": Scores(*map(float, weighted)),
    }


def recognized(matrix: Floats) -> Floats:
    """Of each class the share of its labels that is predicted as it.

    Shape:
        matrix: ``(classes, classes)``; result: ``(classes,)``.
    Not a number:
        NaN for a class without labels.
    """
    labels = matrix.sum(axis=1)
    return _ratios(np.diag(matrix), labels)


def roc(is_positive: Array, scores: Array) -> Curve | None:
    """The ROC curve of scores, all points of it.

    Shape:
        is_positive: ``(samples,)`` of truth values; scores: ``(samples,)``, higher means rather positive.
    Not a number:
        Samples whose score is NaN are left out. None where there are only positive samples or none.
    Source:
        As ``sklearn.metrics.roc_curve`` with ``drop_intermediate=False``; the area by trapezoids.
    """
    known = ~np.isnan(scores)
    positive, given = np.asarray(is_positive)[known].astype(bool), np.asarray(scores, np.float64)[known]
    total = int(positive.sum())
    if not 0 < total < positive.size:
        return None
    order = np.argsort(given, kind="stable")[::-1]
    ends = np.append(np.flatnonzero(np.diff(given[order])), given.size - 1)
    hits = np.cumsum(positive[order])[ends]
    true = np.append(0.0, hits / total)
    false = np.append(0.0, (ends + 1 - hits) / (positive.size - total))
    return Curve(false, true, _area(true, false))


def roc_of_classes(labels: Array, scores: Array) -> dict[str, Curve]:
    """One curve a class against all others, and one over all decisions together, ``micro``.

    Shape:
        labels: ``(samples,)`` classes; scores: ``(samples, classes)``.
    """
    truth = np.asarray(labels)[:, None] == np.arange(scores.shape[1])
    found = {str(each): roc(truth[:, each], scores[:, each]) for each in range(scores.shape[1])}
    found["micro"] = roc(truth.ravel(), scores.ravel())
    return {name: curve for name, curve in found.items() if curve is not None}


def thinned(curve: Curve, most: int = _MOST_POINTS) -> Curve:
    """The same curve to draw, by at most so many points; the area stays.

    Points are chosen evenly along the way from (0, 0) to (1, 1), so that none is further than ``2 / most`` from it.
    """
    way = curve.false_positive + curve.true_positive
    if way.size <= most:
        return curve
    places = np.searchsorted(way, np.linspace(0.0, 2.0, most - 1))
    kept = np.unique(np.append(0, np.minimum(places, way.size - 1)))
    return Curve(curve.false_positive[kept], curve.true_positive[kept], curve.auc)


def bin_edges(labels: Array, bins: int = LABEL_BINS) -> Floats:
    """The edges of bins of equal width over the finite labels.

    Shape:
        labels: ``(samples,)``; result: ``(bins + 1,)``, or ``(2,)`` where all labels are one, ``(0,)`` without any.
    """
    finite = np.asarray(labels, np.float64)[np.isfinite(labels)]
    if not finite.size:
        return np.zeros(0)
    low, high = float(finite.min()), float(finite.max())
    return np.array([low, high]) if low == high else np.linspace(low, high, bins + 1)


def error_by_bin(labels: Array, predictions: Array, edges: Floats) -> Floats:
    """Mean absolute error of the labels in each bin.

    Shape:
        labels, predictions: ``(samples,)``; edges: ``(bins + 1,)`` ascending; result: ``(bins,)``.
    Units:
        Those of the labels.
    Not a number:
        Samples of which label or prediction is not finite are left out; NaN for a bin without samples.
    """
    truth, given = np.asarray(labels, np.float64).ravel(), np.asarray(predictions, np.float64).ravel()
    known = np.isfinite(truth) & np.isfinite(given)
    places = np.clip(np.searchsorted(edges, truth[known], side="right") - 1, 0, len(edges) - 2)
    errors = np.abs(truth[known] - given[known])
    counts = np.bincount(places, minlength=len(edges) - 1)
    sums = np.bincount(places, errors, minlength=len(edges) - 1)
    return _ratios(sums, counts)


def _scores(right: float, predicted: float, labels: float) -> Scores:
    precision = float(right / predicted) if predicted else 0.0
    recall = float(right / labels) if labels else 0.0
    both = predicted + labels
    return Scores(precision, recall, float(2 * right / both) if both else 0.0)


def _ratios(parts: Array, wholes: Array) -> Floats:
    """Parts by wholes; NaN where the whole is 0."""
    found = np.full(len(parts), np.nan)
    np.divide(parts, wholes, out=found, where=wholes > 0)
    return found


def _area(heights: Floats, places: Floats) -> float:
    return float((np.diff(places) * (heights[1:] + heights[:-1]) / 2).sum())
