"""The loss of the best constant prediction, where the loss is recognized by its value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from leadline.frameworks.pure_check.batch import PureBatch
from leadline.frameworks.pure_check.pure_step import Array

_EQUAL: Final = 1e-3
_LEAST: Final = 1e-7


def constant_loss(batch: PureBatch, loss: float) -> float | None:
    """Return the loss of the best constant prediction of a batch; None: which loss it is is not known.

    Args:
        loss: The loss of the step, which must be the mean of a known one between its first prediction and its label.
    """
    predictions = batch.predictions_of(batch.step.compute())
    if len(batch.labels) != 1 or not predictions or batch.has_weights:
        return None
    for value, constant in _known(predictions[0], batch.labels[0].value):
        if abs(value - loss) <= _EQUAL * max(abs(loss), _LEAST):
            return constant
    return None


def _known(prediction: Array, label: Array) -> Iterator[tuple[float, float]]:
    """Yield the losses between a prediction and a label that it fits, each with that of the best constant."""
    classes = prediction.shape[-1] if prediction.ndim > 1 else 1
    is_index = label.size * classes == prediction.size and classes > 1
    if is_index and bool((label == np.round(label)).all()) and label.min() >= 0 and label.max() < classes:
        index = label.astype(np.int64).reshape(-1)
        rows = prediction.reshape(-1, classes)
        share = np.bincount(index, minlength=classes) / len(index)
        entropy = -float((share[share > 0] * np.log(share[share > 0])).sum())
        for chosen in (rows - rows.max(1, keepdims=True), np.log(np.maximum(rows, _LEAST))):
            log = chosen - np.log(np.exp(chosen).sum(1, keepdims=True))
            yield -float(log[np.arange(len(index)), index].mean()), entropy
    if label.size != prediction.size:
        return
    flat, target = prediction.ravel(), label.astype(np.float64).ravel()
    yield float(np.square(flat - target).mean()), float(target.var())
    yield float(np.abs(flat - target).mean()), float(np.abs(target - np.median(target)).mean())
    if target.min() >= 0 and target.max() <= 1:
        rate = float(np.clip(target.mean(), _LEAST, 1 - _LEAST))
        entropy = -(rate * np.log(rate) + (1 - rate) * np.log(1 - rate))
        for chance in (np.clip(flat, _LEAST, 1 - _LEAST), np.clip(1 / (1 + np.exp(-flat)), _LEAST, 1 - _LEAST)):
            yield -float((target * np.log(chance) + (1 - target) * np.log(1 - chance)).mean()), float(entropy)
