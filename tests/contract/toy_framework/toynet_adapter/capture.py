"""Capture of one optimizer: its parameters, their gradients and its velocities."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import toynet

from leadline.frameworks.array_capture import CapturedArrays, ColumnSet
from leadline.frameworks.kit.gradient_norms import NORM, norm_info, wants_norm
from leadline.frameworks.kit.named_tensor import GRADIENTS, NamedTensor, may_select, parameter_collections
from leadline.frameworks.labels import Labels
from leadline.frameworks.pending import Pending
from leadline.records.names import OPTIMIZER_VARIABLES, gradient_name
from leadline.records.plan import CaptureItem
from leadline.records.series import SeriesLayout
from leadline.statistics.one_pass import l2_of, update_ratio
from leadline.store.tensors import CaptureForm, HostBuffer


class ToySubject:
    """See ``leadline.frameworks.adapter.Subject``."""

    def __init__(self, optimizer: toynet.Momentum, labels: Labels, note: Callable[[str], None]) -> None:
        self._optimizer, self._note = weakref.ref(optimizer), note
        self._named = [
            NamedTensor(name, parameter_collections(name), parameter)
            for name, parameter in optimizer.model.parameters()
        ]
        self.model, self.optimizer = optimizer.model.name, type(optimizer).__name__
        self.parameters = len(self._named)
        self.elements = self.trainable = 0
        self._label, self._prefix = labels.of(
            optimizer, self.optimizer, frozenset(tensor.name for tensor in self._named)
        )

    def is_current(self) -> bool:
        return self._optimizer() is not None

    def hyperparameters(self) -> Mapping[str, object]:
        optimizer = self._optimizer()
        if optimizer is None:
            return {}
        return {f"{self._label}/rate": optimizer.rate, f"{self._label}/momentum": optimizer.momentum}

    def clipped(self) -> Mapping[str, object]:
        return {}

    def program(self, items: Sequence[CaptureItem], device_bytes: int) -> ToyProgram | None:
        return ToyProgram(self._optimizer, self._named, items, (self._label, self._prefix), self._note)


class ToyProgram:
    """See ``leadline.frameworks.adapter.Program``."""

    update_layout: SeriesLayout | None = None

    def __init__(
        self,
        optimizer: Callable[[], toynet.Momentum | None],
        named: Sequence[NamedTensor],
        items: Sequence[CaptureItem],
        names: tuple[str, str],
        note: Callable[[str], None],
    ) -> None:
        self._optimizer, self._named, self._items = optimizer, named, items
        self._label, prefix = names
        self._captured = CapturedArrays(note)
        self._captured.begin(items, "train")
        self._norm = (
            ColumnSet((norm_info(prefix + NORM, items),), ((0, "value"),)) if wants_norm(items, prefix) else None
        )
        self._updated = [
            tensor for tensor in named if "update_ratio" in self._captured.requested(tensor.name, tensor.collections)[0]
        ]
        self._before: list[Any] = []
        if self._updated:
            infos = tuple(tensor.info(items, tensor.source.data.shape, "float64") for tensor in self._updated)
            self.update_layout = SeriesLayout(infos, tuple((at, "update_ratio") for at in range(len(infos))))

    def before(self) -> tuple[SeriesLayout, bytes] | None:
        captured = self._captured
        captured.begin(self._items, "train")
        for tensor in self._named:
            captured.keep(tensor.name, tensor.collections, tensor.source.data)
            if tensor.source.grad is not None:
                captured.keep(gradient_name(tensor.name), GRADIENTS, tensor.source.grad)
        if self._norm is not None:
            norms = [l2_of(tensor.source.grad) for tensor in self._named if tensor.source.grad is not None]
            captured.keep_numbers(self._norm, np.sqrt(np.sum(np.square(norms), keepdims=True)))
        optimizer = self._optimizer()
        if optimizer is not None and may_select(self._items, OPTIMIZER_VARIABLES):
            for name, velocity in optimizer.velocities.items():
                captured.keep(f"{self._label}/velocity/{name}", (OPTIMIZER_VARIABLES,), velocity)
        self._before = [tensor.source.data.copy() for tensor in self._updated]
        return captured.row()

    def after(self) -> bytes | None:
        pairs = zip(self._before, self._updated, strict=True)
        return np.array([update_ratio(before, tensor.source.data) for before, tensor in pairs], "<f8").tobytes()

    def raw_form(self) -> CaptureForm | None:
        return self._captured.raw_form()

    def fill(self, buffer: HostBuffer | None) -> Pending | None:
        return self._captured.fill(buffer)
