"""The batches of Keras as it hands them to its models, which ``fit`` and ``evaluate`` show nobody."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from leadline.frameworks.array_capture import CapturedArrays
from leadline.frameworks.keras.loss_facts import has_class_indices, name_of
from leadline.frameworks.kit.named_tensor import NamedTensor, may_select
from leadline.records.plan import CaptureItem


def has_own_step(model: Any, method: str) -> bool:
    """Return whether a model has a method of its own for the step of a batch, which may do anything with it."""
    return getattr(type(model), method) is not getattr(sys.modules["keras"].Model, method)


def inputs_of(model: Any, data: Any) -> list[NamedTensor]:
    """Return the inputs in a batch, named as those of a call of the model."""
    keras = sys.modules["keras"]
    name, kind = str(model.path or model.name), type(model).__name__.lower()
    values = keras.tree.flatten(keras.utils.unpack_x_y_sample_weight(data)[0])
    collections = ("inputs", "layers", f"{kind}_input")
    return [
        NamedTensor(f"{name}_input_{at}", collections, value) for at, value in enumerate(values) if value is not None
    ]


def labels_of(model: Any, data: Any) -> list[NamedTensor]:
    """Return the labels in a batch, named as those of a loss call; none of a model with several losses."""
    keras = sys.modules["keras"]
    losses: Any = getattr(getattr(model, "_compile_loss", None), "_flat_losses", None) or ()
    values = keras.tree.flatten(keras.utils.unpack_x_y_sample_weight(data)[1])
    if len(losses) != 1 or len(values) != 1 or values[0] is None:
        return []
    loss = losses[0].loss
    labels = np.asarray(values[0])
    if has_class_indices(loss):
        labels = labels.astype(np.int64)
    name = name_of(loss)
    return [NamedTensor(f"{name}_input_1", ("labels", "layers", f"{name.replace('_', '')}_input"), labels)]


class EvaluatedBatch:
    """What is captured of the batch of an eval step.

    Args:
        note: Takes a line about something that cannot be captured.
        prepared: Returns an array as the model gets it.
    """

    def __init__(self, note: Callable[[str], None], prepared: Callable[[Any], Any] = np.asarray) -> None:
        self.captured = CapturedArrays(note)
        self._prepared = prepared
        self._items: Sequence[CaptureItem] = ()
        self._model: Any = None

    @property
    def is_wanted(self) -> bool:
        """Whether something of the current batch is captured that is not known yet."""
        return bool(self._items)

    def begin(self, items: Sequence[CaptureItem], mode: str, model: Any) -> None:
        """Begin an eval step; ``model`` is the one that is evaluated."""
        self.captured.begin(items, mode)
        is_known = mode == "eval" and not has_own_step(model, "test_step")
        self._items = items if is_known and may_select(items, "inputs", "labels") else ()
        self._model = model

    def take(self, data: Any) -> None:
        """Capture the batch, whose arrays may change afterwards."""
        begun, self._items = time.perf_counter_ns(), ()
        for named in (*inputs_of(self._model, data), *labels_of(self._model, data)):
            statistics, is_raw = self.captured.requested(named.name, named.collections)
            if statistics or is_raw:
                self.captured.keep(named.name, named.collections, self._prepared(named.source))
        self.captured.own_ns += time.perf_counter_ns() - begun
        self._model = None
