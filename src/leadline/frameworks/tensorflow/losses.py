"""The loss of a batch, from the running totals of Keras."""

from __future__ import annotations

import weakref
from typing import Any

from tensorflow.python.ops import resource_variable_ops
from tensorflow.python.ops.gen_resource_variable_ops import read_variable_op


class LossTotals:
    """The totals of the loss of each model, as they were when they were last read.

    Keras keeps the sum of the losses of an epoch, each times its samples, and the number of samples. The difference of
    two readings is the loss of the batches between them.
    """

    def __init__(self) -> None:
        self._last: weakref.WeakKeyDictionary[Any, tuple[float, float]] = weakref.WeakKeyDictionary()

    def mean_since(self, model: Any) -> float | None:
        """Return the mean loss since the last call for a model; None if no loss was added to the totals."""
        tracker = _tracker(model)
        if tracker is None:
            return None
        total, count = _number(tracker.total), _number(tracker.count)
        last_total, last_count = self._last.get(tracker, (0.0, 0.0))
        if count < last_count:
            last_total = last_count = 0.0  # Keras has reset its mean
        self._last[tracker] = (total, count)
        return (total - last_total) / (count - last_count) if count > last_count else None


def _tracker(model: Any) -> Any | None:
    tracker = getattr(model, "_loss_tracker", None)
    if tracker is None:
        tracker = next((metric for metric in model.metrics if metric.name == "loss"), None)
    return tracker if hasattr(tracker, "total") and hasattr(tracker, "count") else None


def _number(variable: Any) -> float:
    value = variable.value
    if isinstance(value, resource_variable_ops.ResourceVariable):
        return float(read_variable_op(value.handle, value.dtype))  # a fifth of the time of ``value.numpy()``
    return float(value.numpy() if hasattr(value, "numpy") else value)
