"""Capture of one optimizer: its parameters, their gradients and its variables."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from leadline.frameworks.array_capture import CapturedArrays
from leadline.frameworks.capture_requests import (
    CapturedTensor,
    ColumnSets,
    TensorRequest,
    gradient_norms,
    numbers_of,
    primaries_of,
    request_of,
)
from leadline.frameworks.kit.gradient_norms import wants_norm
from leadline.frameworks.kit.named_tensor import GRADIENTS, NamedTensor, may_select
from leadline.frameworks.pending import Pending
from leadline.frameworks.tensorflow.kernels import is_on_host, summarize
from leadline.frameworks.tensorflow.steps import Steps
from leadline.records.names import GRADIENT_NORMS, OPTIMIZER_VARIABLES, gradient_name
from leadline.records.plan import CaptureItem
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.statistics.one_pass import update_ratio
from leadline.store.tensors import CaptureForm, HostBuffer


class Optimized(NamedTuple):
    """What an optimizer is and updates."""

    model: str
    optimizer: str
    label: str
    """The name by which the norms of its gradients are told from those of others."""
    prefix: str
    """The beginning of the names of these norms; empty for the first optimizer."""
    parameters: list[NamedTensor]
    variables: list[NamedTensor]
    settings: Callable[[], Mapping[str, float]]


class TensorFlowSubject:
    """See ``leadline.frameworks.adapter.Subject``.

    Args:
        owner: The optimizer, or the function that takes its place.
        describe: Returns what it updates.
        steps: Replays the current step.
        note: Takes a line about something that cannot be captured.
    """

    def __init__(
        self,
        owner: Any,
        describe: Callable[[Any], Optimized],
        steps: Steps,
        note: Callable[[str], None],
    ) -> None:
        self._owner = weakref.ref(owner)
        self._describe, self._steps, self._note = describe, steps, note
        self._optimized = optimized = describe(owner)
        self.model, self.optimizer = optimized.model, optimized.optimizer
        self.parameters = len(optimized.parameters)
        self.elements = self.trainable = 0

    def is_current(self) -> bool:
        owner = self._owner()
        if owner is None:
            return False
        now, known = self._describe(owner), self._optimized
        return _names(now) == _names(known)

    def hyperparameters(self) -> Mapping[str, object]:
        return self._optimized.settings()

    def clipped(self) -> Mapping[str, object]:
        return {}

    def program(self, items: Sequence[CaptureItem], device_bytes: int) -> TensorFlowProgram | None:
        requested = [
            (named, request)
            for named in self._chosen(items)
            if not (request := request_of(items, named.name, named.collections)).is_empty
        ]
        if not requested and not may_select(items, *GRADIENTS, GRADIENT_NORMS):
            return None
        if may_select(items, *GRADIENTS, GRADIENT_NORMS):
            self._steps.prepare(items)
        return TensorFlowProgram(items, requested, self._optimized, self._steps, self._note)

    def _chosen(self, items: Sequence[CaptureItem]) -> Iterator[NamedTensor]:
        yield from self._optimized.parameters
        if may_select(items, OPTIMIZER_VARIABLES):
            yield from self._optimized.variables


def _names(optimized: Optimized) -> list[str]:
    return [named.name for named in (*optimized.parameters, *optimized.variables)]


class TensorFlowProgram:
    """See ``leadline.frameworks.adapter.Program``."""

    update_layout: SeriesLayout | None = None

    def __init__(
        self,
        items: Sequence[CaptureItem],
        requested: Sequence[tuple[NamedTensor, TensorRequest]],
        optimized: Optimized,
        steps: Steps,
        note: Callable[[str], None],
    ) -> None:
        self._items, self._requested, self._steps = items, requested, steps
        self._label, self._prefix = optimized.label, optimized.prefix
        self._gradients = {gradient_name(named.name) for named in optimized.parameters}
        self._needs_gradients = may_select(items, *GRADIENTS, GRADIENT_NORMS)
        self._captured, self._blocks = CapturedArrays(note), ColumnSets()
        self._infos = [_info(named, items) for named, _ in requested]
        self._updates = [named for named, request in requested if request.has_update_ratio]
        self._before: list[Any] = []
        if self._updates:
            infos = tuple(i for i, (_, r) in zip(self._infos, requested, strict=True) if r.has_update_ratio)
            self.update_layout = SeriesLayout(infos, tuple((at, "update_ratio") for at in range(len(infos))))

    def before(self) -> tuple[SeriesLayout, bytes] | None:
        self._captured.begin(self._items, "train")
        replayed = self._steps.replay(self._items) if self._needs_gradients else []
        if self._steps.is_exhausted:
            return None
        for info, (named, request) in zip(self._infos, self._requested, strict=True):
            self._keep(info, _tensor(named), request)
        self._keep_gradients(replayed)
        self._before = [tf.identity(_tensor(named)) for named in self._updates]
        return self._captured.row()

    def _keep_gradients(self, replayed: Sequence[CapturedTensor]) -> None:
        values = [value for value in replayed if value.info.name in self._gradients]
        self._blocks.keep(self._captured, self._items, values)
        if wants_norm(self._items, self._prefix):
            before = numbers_of(replayed, GRADIENT_NORMS).get(self._label)
            self._blocks.keep_norms(self._captured, self._items, self._prefix, gradient_norms(values, before))

    def _keep(self, info: TensorInfo, tensor: Any, request: TensorRequest) -> None:
        if is_on_host(tensor):
            self._blocks.keep_array(self._captured, info, request, tensor._numpy())
            return
        primaries = primaries_of(request.on_device)
        numbers = summarize([tensor], primaries).numpy()
        values = CapturedTensor(info, primaries, numbers, tensor.numpy() if request.needs_copy else None)
        self._blocks.keep(self._captured, self._items, [values])

    def after(self) -> bytes | None:
        before, self._before = self._before, []
        if not before:
            return None
        ratios = [_update_ratio(_tensor(named), old) for named, old in zip(self._updates, before, strict=True)]
        return np.array(ratios, "<f8").tobytes()

    def take_blocked_ns(self) -> int:
        return self._steps.take_blocked_ns()

    def raw_form(self) -> CaptureForm | None:
        return self._captured.raw_form()

    def fill(self, buffer: HostBuffer | None) -> Pending | None:
        return self._captured.fill(buffer)


def _tensor(named: NamedTensor) -> Any:
    value = getattr(named.source, "value", named.source)
    return tf.convert_to_tensor(value() if callable(value) else value)


def _update_ratio(after: Any, before: Any) -> float:
    if is_on_host(after) and is_on_host(before):
        return update_ratio(before._numpy(), after._numpy())
    wide = tf.cast(before, tf.float64)
    change, norm = tf.norm(tf.cast(after, tf.float64) - wide), tf.norm(wide)
    return float(tf.where(norm == 0, tf.where(change == 0, change, tf.constant(np.inf, tf.float64)), change / norm))


def _info(named: NamedTensor, items: Sequence[CaptureItem]) -> TensorInfo:
    variable = named.source
    dtype = variable.dtype if isinstance(variable.dtype, str) else variable.dtype.name
    return named.info(items, variable.shape, dtype)
