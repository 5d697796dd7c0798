"""The loss of a batch, from the running totals of Keras."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from tensorflow.python.ops import resource_variable_ops
from tensorflow.python.ops.gen_resource_variable_ops import read_variable_op


class LossReading(NamedTuple):
    """The totals of the loss of a model, as they were at some time.

    Attributes:
        tracker: The metric of Keras that keeps them.
        total: The sum of the losses.
        count: The number of samples.
    """

    tracker: Any
    total: Any
    count: Any


class LossTotals:
    """The totals of the loss of each model, as they were when they were last read.

    Keras keeps the sum of the losses of an epoch, each times its samples, and the number of samples. The difference of
    two readings is the loss of the batches between them.
    """

    def __init__(self) -> None:
        self._last: weakref.WeakKeyDictionary[Any, tuple[float, float]] = weakref.WeakKeyDictionary()
        self._readers: weakref.WeakKeyDictionary[Any, tuple[Callable[[], Any], Callable[[], Any]]] = (
            weakref.WeakKeyDictionary()
        )

    def read(self, model: Any) -> LossReading | None:
        """Return the totals of a model; None if it has none."""
        tracker = _tracker(model)
        if tracker is None:
            return None
        readers = self._readers.get(tracker)
        if readers is None:
            readers = self._readers[tracker] = (_reader(tracker.total), _reader(tracker.count))
        return LossReading(tracker, readers[0](), readers[1]())

    def mean_since(self, reading: LossReading) -> float | None:
        """Return the mean loss since the reading before, of the same model; None if no loss was added."""
        tracker, total, count = reading.tracker, float(reading.total), float(reading.count)
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


def _reader(variable: Any) -> Callable[[], Any]:
    """Return what reads a variable; the value stays as it is when the variable changes."""
    value = variable.value
    if isinstance(value, resource_variable_ops.ResourceVariable):
        handle, dtype = value.handle, value.dtype  # Keras takes 30 µs to look them up after a step of the training
        return lambda: read_variable_op(handle, dtype)  # a fifth of the time of ``value.numpy()``

    def read() -> Any:
        value = variable.value
        return value.numpy() if hasattr(value, "numpy") else value

    return read
