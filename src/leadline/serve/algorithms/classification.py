"""The metrics that SageMaker's XGBoost has beside those of the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_Labels = npt.NDArray[np.float64]


class _Confusion:
    """How often each class was predicted for each.

    Args:
        labels, predicted: ``(samples,)`` of classes.
    """

    def __init__(self, labels: _Labels, predicted: _Labels) -> None:
        self.classes = np.union1d(labels, predicted)
        rows, columns = np.searchsorted(self.classes, labels), np.searchsorted(self.classes, predicted)
        self.counts = np.zeros((len(self.classes),) * 2)
        np.add.at(self.counts, (rows, columns), 1)

    def precision(self) -> _Labels:
        """Return the precision of each class; 0 where it was never predicted."""
        return _ratio(np.diag(self.counts), self.counts.sum(0))

    def recall(self) -> _Labels:
        """Return the recall of each class; 0 where no sample has it."""
        return _ratio(np.diag(self.counts), self.counts.sum(1))

    def f1(self) -> _Labels:
        """Return the harmonic mean of precision and recall of each class."""
        return _ratio(2 * np.diag(self.counts), self.counts.sum(0) + self.counts.sum(1))

    def accuracy(self) -> float:
        """Return the share of samples whose class was predicted."""
        return float(np.trace(self.counts) / self.counts.sum())

    def balanced_accuracy(self) -> float:
        """Return the mean recall of the classes that samples have."""
        return float(self.recall()[self.counts.sum(1) > 0].mean())

    def of_class_1(self, values: _Labels) -> float:
        """Return the value of the positive class."""
        return float(values[self.classes == 1].sum())


def _ratio(part: _Labels, whole: _Labels) -> _Labels:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


_OF_CLASSES: Final[dict[str, Callable[[_Confusion], float]]] = {
    "accuracy": _Confusion.accuracy,
    "balanced_accuracy": _Confusion.balanced_accuracy,
    "f1": lambda one: float(one.f1().mean()),
    "f1_macro": lambda one: float(one.f1().mean()),
    "f1_binary": lambda one: one.of_class_1(one.f1()),
    "precision": lambda one: one.of_class_1(one.precision()),
    "precision_macro": lambda one: float(one.precision().mean()),
    "precision_micro": _Confusion.accuracy,
    "recall": lambda one: one.of_class_1(one.recall()),
    "recall_macro": lambda one: float(one.recall().mean()),
    "recall_micro": _Confusion.accuracy,
}
_OF_NUMBERS: Final[dict[str, Callable[[_Labels, _Labels], float]]] = {
    "mse": lambda labels, predicted: float(np.square(labels - predicted).mean()),
    "r2": lambda labels, predicted: float(
        1 - np.square(labels - predicted).sum() / np.square(labels - labels.mean()).sum()
    ),
}
CUSTOM_METRICS: Final = (*_OF_CLASSES, *_OF_NUMBERS)
MAXIMIZED: Final = (*_OF_CLASSES, "r2", "auc", "aucpr", "map", "ndcg")


def custom_metrics(names: list[str]) -> Callable[[Any, Any], list[tuple[str, float]]] | None:
    """Return the function of ``xgboost.train`` for those of the metrics that the library does not have; None: none."""
    own = [name for name in names if name in CUSTOM_METRICS]
    if not own:
        return None

    def evaluate(predicted: Any, data: Any) -> list[tuple[str, float]]:
        labels = np.asarray(data.get_label(), np.float64)
        values = np.asarray(predicted, np.float64)
        confusion = _Confusion(labels, _classes(values)) if set(own) & set(_OF_CLASSES) else None
        return [
            (
                name,
                _OF_CLASSES[name](confusion)
                if confusion and name in _OF_CLASSES
                else _OF_NUMBERS[name](labels, values),
            )
            for name in own
        ]

    return evaluate


def _classes(predicted: _Labels) -> _Labels:
    """Return the classes of predictions: probabilities, of one class or of all, or classes."""
    if predicted.ndim > 1:
        return np.asarray(predicted.argmax(1), np.float64)
    if np.equal(predicted, np.round(predicted)).all():
        return predicted
    return np.where(predicted > 0.5, 1.0, 0.0)
