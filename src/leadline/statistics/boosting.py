"""The kind of model of a booster, and the classes of its predictions; numpy only."""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from leadline.statistics.definitions import MAX_CLASSES

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
"""Kinds by the family of an objective (the part before the colon), for XGBoost and LightGBM."""
_MARGINS: Final = frozenset({"binary:logitraw"})
"""Objectives whose predictions are margins: above 0 is class 1."""


def kind_of(objective: str | None, labels: Array | None = None, predictions: Array | None = None) -> Kind:
    """Return the kind of a model by its objective; if that is unknown, by its labels and predictions.

    Shape:
        labels: ``(samples,)``; predictions: ``(samples,)`` or ``(samples, classes)``.
    Not a number:
        NaN labels are not a class.
    Args:
        objective: As the booster names it, ``binary:logistic`` or ``lambdarank``; None or a custom one is unknown.
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
    """Return the class of each prediction.

    Shape:
        predictions: ``(samples,)``, ``(samples, 1)`` or ``(samples, classes)``; result: ``(samples,)``.
    Units:
        Classes from 0 on.
    Not a number:
        NaN counts as the largest of its row; with one number per sample it is class 0.
    Args:
        objective: As the booster names it. For one number per sample it distinguishes a class (``multi:softmax``), a
            probability and a margin; if it is unknown, numbers between 0 and 1 are probabilities.
    """
    if predictions.ndim > 1 and predictions.shape[1] > 1:
        return np.asarray(predictions.argmax(axis=1), np.int64)
    flat = predictions.ravel()
    if kind_of(objective) == "multiclass":
        return np.nan_to_num(flat).astype(np.int64)
    is_margin = objective in _MARGINS if kind_of(objective) == "binary" else not _are_probabilities(flat)
    return np.asarray(flat > (0.0 if is_margin else 0.5), np.int64)


def confusion(labels: Array, predicted: Array, classes: int | None = None) -> Floats | None:
    """Return how often each label was predicted as each class.

    Shape:
        labels, predicted: classes, ``(samples,)``; result: ``(classes, classes)``, rows are labels, columns
        predictions; None for more than ``MAX_CLASSES`` or no classes.
    Units:
        Counts; labels that are not integers from 0 on are ignored.
    Not a number:
        NaN labels are ignored.
    Args:
        classes: The number of classes; None: as many as occur.
    """
    kept = _is_class(labels)
    actual, given = labels.ravel()[kept].astype(np.int64), predicted.ravel()[kept].astype(np.int64)
    occurring = int(max(actual.max(initial=-1), given.max(initial=-1))) + 1
    size = max(occurring, classes or 0)
    if not 0 < size <= MAX_CLASSES or given.min(initial=0) < 0:
        return None
    return np.bincount(actual * size + given, minlength=size * size).reshape(size, size).astype(np.float64)


def class_counts(labels: Array) -> Floats:
    """Return how often each class occurs among labels.

    Shape:
        labels: ``(samples,)``, integer or floating; result: ``(classes,)``, up to the highest class that occurs.
    Units:
        Counts; values that are not integers from 0 to below ``MAX_CLASSES`` are ignored.
    Not a number:
        Ignored.
    """
    flat = labels.ravel()[_is_class(labels)]
    return np.bincount(flat[flat < MAX_CLASSES].astype(np.int64)).astype(np.float64)


def _is_class(labels: Array) -> npt.NDArray[np.bool_]:
    flat = labels.ravel()
    with np.errstate(invalid="ignore"):
        return np.asarray((flat >= 0) & np.isfinite(flat) & (flat == np.floor(flat)))


def _are_classes(labels: Array, classes: int) -> bool:
    flat = labels.ravel()
    return bool(flat.size) and bool(np.all(_is_class(flat) & (flat < classes)))


def _are_probabilities(flat: Array) -> bool:
    known = flat[np.isfinite(flat)]
    return bool(np.all((known >= 0) & (known <= 1)))
