"""Taps: statistics and copies of tensors inside a function that is traced again, or of an eager step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import ResourceVariable  # never one for each replica

from leadline.frameworks.capture_requests import Array, CapturedTensor, TensorRequest, primaries_of, request_with_norm
from leadline.frameworks.keras.linear_pairs import LinearLayerPairs
from leadline.frameworks.keras.loss_facts import LossFacts
from leadline.frameworks.kit.loss_facts import MAX_CALLS, NO_FACTS, unused_name
from leadline.frameworks.kit.named_tensor import NamedTensor
from leadline.frameworks.tensorflow.kernels import is_numeric, summarize
from leadline.instrumentation.guard import Fact
from leadline.records.plan import CaptureItem
from leadline.records.series import TensorInfo

_NEVER_WRITTEN = -1.0


@dataclass(slots=True)
class _Group:
    """Tensors that are tapped at one place."""

    infos: tuple[TensorInfo, ...]
    primaries: tuple[str, ...]
    numbers: Any
    """A variable of ours: a row for each tensor."""
    copies: dict[int, Any] = field(default_factory=dict)
    """Variables of ours that hold whole tensors, by index."""


class Taps:
    """The taps of one function that was traced again, whose values are assigned to variables of ours.

    Assigned variables work where further results of a function would not: in branches, loops, replicas and within XLA.

    Args:
        items: What is captured.
        fact: Runs what finds facts about loss calls.
    """

    def __init__(self, items: Sequence[CaptureItem], fact: Fact) -> None:
        self.items, self.fact = tuple(items), fact
        self._groups: dict[tuple[str, ...], _Group] = {}
        self._losses: dict[str, tuple[LossFacts, Any]] = {}
        """The facts about each loss call, and our variable for those that are computed with each batch."""
        self._pairs = LinearLayerPairs()
        self._is_traced = False

    def variables(self) -> set[int]:
        """Return the ids of our variables."""
        tensors = (variable for group in self._groups.values() for variable in (group.numbers, *group.copies.values()))
        return {*map(id, tensors), *(id(variable) for _, variable in self._losses.values())}

    def clear(self) -> None:
        """Forget earlier values: a branch that is not taken writes none."""
        for group in self._groups.values():
            group.numbers.assign(tf.fill(group.numbers.shape, tf.constant(_NEVER_WRITTEN, tf.float64)))

    def add(self, tensors: Sequence[NamedTensor]) -> None:
        """Capture what is requested of some tensors; called while the function is traced."""
        chosen = [(tapped, request) for tapped in tensors if not (request := self._request(tapped)).is_empty]
        if not chosen or not _is_first_replica():
            return
        chosen = [(tapped, request) for tapped, request in chosen if is_numeric(tapped.source)]
        primaries = primaries_of(name for _, request in chosen for name in request.on_device)
        group = self._group([tapped for tapped, _ in chosen], primaries)
        dense = [tf.convert_to_tensor(tapped.source) for tapped, _ in chosen]
        for at, (_, request) in enumerate(chosen):
            if request.needs_copy:
                self._copy_variable(group, at, dense[at]).assign(dense[at])
        if dense:
            group.numbers.assign(summarize(dense, primaries))

    def add_number(self, name: str, collection: str, number: Any) -> None:
        """Capture a number that is not selected by items: a loss, or a norm of all gradients."""
        if _is_first_replica():
            group = self._group([NamedTensor(name, (collection,), number)], ("sum",))
            group.numbers.assign(summarize([number], ("sum",)))

    def add_loss_facts(self, found: LossFacts) -> None:
        """Capture facts about a loss call; called while the function is traced."""
        if self._is_traced or len(self._losses) >= MAX_CALLS or not _is_first_replica():
            return
        name = unused_name(found.name, self._losses)
        with tf.init_scope():
            variable = ResourceVariable(tf.zeros([len(found.computed)], tf.float64), trainable=False, name="leadline")
        if found.computed:
            variable.assign(tf.stack(list(found.computed.values())))
        self._losses[name] = (found, variable)

    def add_layer(self, layer: Any, name: str, inputs: Sequence[Any], output: Any) -> None:
        """Look at the call of a layer; called while the function is traced."""
        if not self._is_traced and _is_first_replica():
            self._pairs.add(layer, name, inputs, output)

    def end_trace(self) -> None:
        """End the trace: of further ones, for batches of other shapes, no facts are captured."""
        self._is_traced = True

    def loss_facts(self) -> dict[str, float]:
        """Return the facts about all loss calls, and about pairs of linear layers, as checks."""
        checks: dict[str, float] = {}
        for name, (found, variable) in self._losses.items():
            computed = dict(zip(found.computed, map(float, variable.numpy()), strict=True))
            known = found.known | {fact: number for fact, number in computed.items() if number == number}
            checks |= {f"{name}/{fact}": number for fact, number in known.items()}
        return (checks or NO_FACTS) | self._pairs.numbers()

    def values(self) -> list[CapturedTensor]:
        """Return what was captured since ``clear``."""
        found = []
        for group in self._groups.values():
            numbers = group.numbers.numpy()
            for at, info in enumerate(group.infos):
                if numbers[at, 0] != _NEVER_WRITTEN:
                    copy = group.copies[at].numpy() if at in group.copies else None
                    found.append(CapturedTensor(_with_shape(info, copy), group.primaries, numbers[at : at + 1], copy))
        return found

    def _request(self, tapped: NamedTensor) -> TensorRequest:
        return request_with_norm(self.items, tapped, None)

    def _group(self, tensors: Sequence[NamedTensor], primaries: tuple[str, ...]) -> _Group:
        key = tuple(tapped.name for tapped in tensors)
        if key not in self._groups:
            infos = tuple(_info(tapped, self.items) for tapped in tensors)
            with tf.init_scope():
                shape = (len(infos), 1 + len(primaries))
                numbers = ResourceVariable(tf.zeros(shape, tf.float64), trainable=False, name="leadline")
            self._groups[key] = _Group(infos, primaries, numbers)
        return self._groups[key]

    @staticmethod
    def _copy_variable(group: _Group, at: int, tensor: Any) -> Any:
        if at not in group.copies:
            with tf.init_scope():
                empty = tf.zeros([size or 0 for size in tensor.shape], tensor.dtype)
                group.copies[at] = ResourceVariable(empty, trainable=False, shape=tensor.shape, name="leadline")
        return group.copies[at]


class EagerTaps:
    """The taps of an eager step, whose values are computed at once; see ``Taps``.

    Each tensor is captured once: a script may call its model any number of times before it updates.
    """

    def __init__(self, items: Sequence[CaptureItem]) -> None:
        self.items = tuple(items)
        self._values: list[CapturedTensor] = []
        self._seen: set[str] = set()

    def add(self, tensors: Sequence[NamedTensor]) -> None:
        """Capture what is requested of some tensors."""
        for tapped in tensors:
            if tapped.name in self._seen:
                continue
            self._seen.add(tapped.name)
            request = request_with_norm(self.items, tapped, None)
            if not (request.on_device or request.needs_copy) or not is_numeric(tapped.source):
                continue
            primaries = primaries_of(request.on_device)
            dense = tf.convert_to_tensor(tapped.source)
            numbers = summarize([dense], primaries).numpy()
            copy = dense.numpy() if request.needs_copy else None
            self._values.append(CapturedTensor(_info(tapped, self.items), primaries, numbers, copy))

    def add_number(self, name: str, collection: str, number: Any) -> None:
        """Capture a number that is not selected by items: a norm of all gradients."""
        info = _info(NamedTensor(name, (collection,), number), ())
        self._values.append(CapturedTensor(info, ("sum",), summarize([number], ("sum",)).numpy(), None))

    def values(self) -> list[CapturedTensor]:
        """Return what was captured."""
        return self._values


def _info(tapped: NamedTensor, items: Sequence[CaptureItem]) -> TensorInfo:
    return tapped.info(items, tapped.source.shape, tapped.source.dtype.name)


def _with_shape(info: TensorInfo, copy: Array | None) -> TensorInfo:
    if copy is None or info.shape == copy.shape:
        return info
    return TensorInfo(info.name, info.collections, tuple(copy.shape), info.dtype)


def _is_first_replica() -> bool:
    replica = tf.distribute.get_replica_context()
    return replica is None or tf.get_static_value(replica.replica_id_in_sync_group) in (None, 0)
