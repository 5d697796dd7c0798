"""What kind of model a booster is, and which classes its predictions mean; by numpy alone, for both wings."""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from leadline.statistics.definitions import MOST_CLASSES

Kind = Literal["binary", "multiclass", "regression", "ranking", "other"]
Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_KINDS: Final[dict[str, Kind]] = {
    "binary": "binary",
    "multi": "multiclass",
    "multiclass": "multiclass",
    "multiclassova": "multiclass",
    "multiclass_ova": "multiclass",
    "ova": "multiclass",
    "ovr": "multiclass",
    "softmax": "multiclass",
    "rank": "ranking",
    "lambdarank": "ranking",
    "rank_xendcg": "ranking",
    "xendcg": "ranking",
    "reg": "regression",
    "count": "regression",
    "survival": "other",
    "regression": "regression",
    "regression_l1": "regression",
    "l1": "regression",
    "mae": "regression",
    "l2": "regression",
    "mse": "regression",
    "rmse": "regression",
    "huber": "regression",
    "fair": "regression",
    "poisson": "regression",
    "quantile": "regression",
    "mape": "regression",
    "gamma": "regression",
    "tweedie": "regression",
    "mean_absolute_error": "regression",
    "mean_squared_error": "regression",
}
"""Kinds by the family of an objective, what stands before the colon: XGBoost's and LightGBM's."""
_MARGINS: Final = frozenset({"binary:logitraw"})
"""Objectives whose predictions are margins: above 0 is class 1."""


def kind_of(objective: str | None, labels: Array | None = None, predictions: Array | None = None) -> Kind:
    """What a model is for, by its objective; where that says nothing, by its labels and predictions.

    Shape:
        labels: ``(samples,)``; predictions: ``(samples,)`` or ``(samples, classes)``.
    Not a number:
        Labels that are NaN are nobody's class.
    Args:
        objective: As the booster names it, ``binary:logistic`` or ``lambdarank``; None or a custom one: not known.
    """
    family = (objective or "").partition(":")[0]
    if objective == "reg:logistic" and labels is not None and _are_classes(labels, 2):
        return "binary"
    if family in _KINDS:
        return _KINDS[family]
    if labels is None or not labels.size:
        return "other"
    if predictions is not None and predictions.ndim > 1 and predictions.shape[1] > 1:
        return "multiclass" if _are_classes(labels, predictions.shape[1]) else "other"
    return "binary" if _are_classes(labels, 2) else "regression"


def predicted_classes(predictions: Array, objective: str | None = None) -> Integers:
    """The class that each prediction means.

    Shape:
        predictions: ``(samples,)``, ``(samples, 1)`` or ``(samples, classes)``; result: ``(samples,)``.
    Units:
        Classes from 0 on.
    Not a number:
        NaN counts as the largest of its row; where there is one number a sample it is class 0.
    Args:
        objective: As the booster names it. Of one number a sample it tells a class (``multi:softmax``), a
            probability and a margin apart; where it does not, numbers within 0 and 1 are probabilities.
    """
    if predictions.ndim > 1 and predictions.shape[1] > 1:
        return np.asarray(predictions.argmax(axis=1), np.int64)
    flat = predictions.ravel()
    if kind_of(objective) == "multiclass":
        return np.nan_to_num(flat).astype(np.int64)
    is_margin = objective in _MARGINS if kind_of(objective) == "binary" else not _are_probabilities(flat)
    return np.asarray(flat > (0.0 if is_margin else 0.5), np.int64)


def confusion(labels: Array, predicted: Array, classes: int | None = None) -> Floats | None:
    """How often a label was predicted as a class.

    Shape:
        labels, predicted: classes, ``(samples,)``; result: ``(classes, classes)``, rows are labels, columns
        predictions; None where there are more than ``MOST_CLASSES``, or none.
    Units:
        Counts; labels that are no whole number from 0 on are left out.
    Not a number:
        As a label that is none.
    Args:
        classes: How many there are; None: as many as are met.
    """
    kept = _whole(labels)
    actual, given = labels.ravel()[kept].astype(np.int64), predicted.ravel()[kept].astype(np.int64)
    met = int(max(actual.max(initial=-1), given.max(initial=-1))) + 1
    size = max(met, classes or 0)
    if not 0 < size <= MOST_CLASSES or given.min(initial=0) < 0:
        return None
    return np.bincount(actual * size + given, minlength=size * size).reshape(size, size).astype(np.float64)


def class_counts(labels: Array) -> Floats:
    """How often each class occurs among labels.

    Shape:
        labels: ``(samples,)``, whole or floating; result: ``(classes,)``, up to the highest that occurs.
    Units:
        Counts; what is no whole number from 0 to below ``MOST_CLASSES`` is left out.
    Not a number:
        Left out.
    """
    flat = labels.ravel()[_whole(labels)]
    return np.bincount(flat[flat < MOST_CLASSES].astype(np.int64)).astype(np.float64)


def _whole(labels: Array) -> npt.NDArray[np.bool_]:
    flat = labels.ravel()
    with np.errstate(invalid="ignore"):
        return np.asarray((flat >= 0) & np.isfinite(flat) & (flat == np.floor(flat)))


def _are_classes(labels: Array, classes: int) -> bool:
    flat = labels.ravel()
    return bool(flat.size) and bool(np.all(_whole(flat) & (flat < classes)))


def _are_probabilities(flat: Array) -> bool:
    known = flat[np.isfinite(flat)]
    return bool(np.all((known >= 0) & (known <= 1)))
