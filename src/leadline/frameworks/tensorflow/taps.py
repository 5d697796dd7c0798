"""Taps: statistics and copies of tensors inside a function that is traced again, or of an eager step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import ResourceVariable  # never one for each replica

from leadline.frameworks.array_capture import Block, CapturedArrays
from leadline.frameworks.keras.linear_pairs import LinearLayerPairs
from leadline.frameworks.keras.loss_facts import LossFacts
from leadline.frameworks.tensorflow.kernels import DEVICE_STATISTICS, derive, is_numeric, primaries_of, summarize
from leadline.records.loss_facts import KIND, LossKind
from leadline.records.names import GRADIENT_NORMS
from leadline.records.plan import CaptureItem, custom_collections
from leadline.records.series import TensorInfo
from leadline.statistics.arrays import compute_vector
from leadline.statistics.definitions import find_statistic

Array = npt.NDArray[Any]
ON_UPDATE = "update_ratio"
_NEVER_WRITTEN = -1.0


@dataclass(frozen=True, slots=True)
class TapRequest:
    """What some capture items request of a tensor."""

    on_device: tuple[str, ...]
    """Statistics that the device computes."""
    on_host: tuple[str, ...]
    """Statistics that are computed from a copy of the tensor."""
    is_raw: bool
    has_update_ratio: bool

    @property
    def is_empty(self) -> bool:
        """Whether nothing is requested."""
        return not (self.on_device or self.on_host or self.is_raw or self.has_update_ratio)

    @property
    def needs_copy(self) -> bool:
        """Whether the tensor itself is needed on the host."""
        return self.is_raw or bool(self.on_host)


def request_of(items: Sequence[CaptureItem], name: str, collections: tuple[str, ...]) -> TapRequest:
    """Return what some items request of a tensor."""
    members = frozenset(collections)
    selecting = [item for item in items if item.selects(name, members)]
    statistics = dict.fromkeys(statistic for item in selecting for statistic in item.statistics)
    sources = {statistic: find_statistic(statistic).source for statistic in statistics}
    on_host = tuple(s for s, source in sources.items() if s not in DEVICE_STATISTICS and source not in _NOT_OF_ONE)
    on_device = [statistic for statistic in statistics if statistic in DEVICE_STATISTICS]
    is_raw = any(item.raw for item in selecting)
    if not on_device and (is_raw or on_host):
        on_device = ["max"]  # the row carries the collections of the tensor
    return TapRequest(tuple(on_device), on_host, is_raw, ON_UPDATE in statistics)


_NOT_OF_ONE = frozenset({"update", "number", "pair"})
"""Sources of statistics that do not apply to a single tensor."""


NO_FACTS: Final = {f"loss/{KIND}": float(LossKind.UNKNOWN)}
"""What is recorded of a step whose loss calls are not known."""
_MAX_LOSSES: Final = 8
"""Loss calls of a function that facts are captured of."""


class Tapped(NamedTuple):
    """A tensor to be captured."""

    name: str
    collections: tuple[str, ...]
    tensor: Any


class Values(NamedTuple):
    """What was captured of one tensor."""

    info: TensorInfo
    primaries: tuple[str, ...]
    numbers: npt.NDArray[np.float64]
    """The number of elements, and one number per primary; shape ``(1, 1 + len(primaries))``."""
    copy: Array | None


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
    """

    def __init__(self, items: Sequence[CaptureItem]) -> None:
        self.items = tuple(items)
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

    def add(self, tensors: Sequence[Tapped]) -> None:
        """Capture what is requested of some tensors; called while the function is traced."""
        chosen = [(tapped, request) for tapped in tensors if not (request := self._request(tapped)).is_empty]
        if not chosen or not _is_first_replica():
            return
        chosen = [(tapped, request) for tapped, request in chosen if is_numeric(tapped.tensor)]
        primaries = primaries_of(name for _, request in chosen for name in request.on_device)
        group = self._group([tapped for tapped, _ in chosen], primaries)
        dense = [tf.convert_to_tensor(tapped.tensor) for tapped, _ in chosen]
        for at, (_, request) in enumerate(chosen):
            if request.needs_copy:
                self._copy_variable(group, at, dense[at]).assign(dense[at])
        if dense:
            group.numbers.assign(tf.stack([summarize(tensor, primaries) for tensor in dense]))

    def add_number(self, name: str, collection: str, number: Any) -> None:
        """Capture a number that is not selected by items: a loss, or a norm of all gradients."""
        if _is_first_replica():
            group = self._group([Tapped(name, (collection,), number)], ("sum",))
            group.numbers.assign(summarize(number, ("sum",))[None])

    def add_loss_facts(self, found: LossFacts) -> None:
        """Capture facts about a loss call; called while the function is traced."""
        if self._is_traced or len(self._losses) >= _MAX_LOSSES or not _is_first_replica():
            return
        stem = found.name
        names = (stem, *(f"{stem}_{at}" for at in range(1, len(self._losses) + 2)))
        name = next(name for name in names if name not in self._losses)
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

    def values(self) -> list[Values]:
        """Return what was captured since ``clear``."""
        found = []
        for group in self._groups.values():
            numbers = group.numbers.numpy()
            for at, info in enumerate(group.infos):
                if numbers[at, 0] != _NEVER_WRITTEN:
                    copy = group.copies[at].numpy() if at in group.copies else None
                    found.append(Values(_with_shape(info, copy), group.primaries, numbers[at : at + 1], copy))
        return found

    def _request(self, tapped: Tapped) -> TapRequest:
        request = request_of(self.items, tapped.name, tapped.collections)
        if "gradients" in tapped.collections and "l2" not in request.on_device and wants_norms(self.items):
            return TapRequest((*request.on_device, "l2"), request.on_host, request.is_raw, request.has_update_ratio)
        return request

    def _group(self, tensors: Sequence[Tapped], primaries: tuple[str, ...]) -> _Group:
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
    """The taps of an eager step, whose values are computed at once; see ``Taps``."""

    def __init__(self, items: Sequence[CaptureItem]) -> None:
        self.items = tuple(items)
        self._values: list[Values] = []

    def add(self, tensors: Sequence[Tapped]) -> None:
        """Capture what is requested of some tensors."""
        for tapped in tensors:
            request = request_of(self.items, tapped.name, tapped.collections)
            statistics = request.on_device
            if "gradients" in tapped.collections and wants_norms(self.items):
                statistics = (*statistics, "l2")
            if not (statistics or request.needs_copy) or not is_numeric(tapped.tensor):
                continue
            primaries = primaries_of(statistics)
            dense = tf.convert_to_tensor(tapped.tensor)
            numbers = summarize(dense, primaries).numpy()[None]
            copy = dense.numpy() if request.needs_copy else None
            self._values.append(Values(_info(tapped, self.items), primaries, numbers, copy))

    def add_number(self, name: str, collection: str, number: Any) -> None:
        """Capture a number that is not selected by items: a norm of all gradients."""
        info = _info(Tapped(name, (collection,), number), ())
        self._values.append(Values(info, ("sum",), summarize(number, ("sum",)).numpy()[None], None))

    def values(self) -> list[Values]:
        """Return what was captured."""
        return self._values


class Blocks:
    """The columns of captured tensors; equal ones are one object, so that their rows share a layout."""

    def __init__(self) -> None:
        self._known: dict[tuple[TensorInfo, tuple[str, ...]], Block] = {}

    def keep(self, captured: CapturedArrays, items: Sequence[CaptureItem], values: Sequence[Values]) -> None:
        """Pass on to ``captured`` what ``items`` request of some values."""
        for value in values:
            info = value.info
            request = request_of(items, info.name, info.collections)
            if request.on_device:
                block = self._block(info, request.on_device)
                captured.keep_numbers(block, derive(request.on_device, value.primaries, value.numbers))
            if value.copy is not None and request.needs_copy:
                _keep_copy(captured, info, request, value.copy)

    def _block(self, info: TensorInfo, statistics: tuple[str, ...]) -> Block:
        key = (info, statistics)
        if key not in self._known:
            self._known[key] = Block((info,), tuple((0, statistic) for statistic in statistics))
        return self._known[key]

    def keep_numbers(
        self, captured: CapturedArrays, info: TensorInfo, statistics: tuple[str, ...], values: Sequence[float]
    ) -> None:
        """Pass on numbers that are statistics already."""
        captured.keep_numbers(self._block(info, statistics), np.array(values, np.float64))


def _keep_copy(captured: CapturedArrays, info: TensorInfo, request: TapRequest, copy: Array) -> None:
    if any(not find_statistic(name).is_vector for name in request.on_host):
        captured.keep(info.name, info.collections, copy, without=DEVICE_STATISTICS)
        return
    for name in request.on_host:
        if find_statistic(name).source != "units" or copy.ndim >= 1:
            captured.keep_vector(info.name, name, compute_vector(name, copy))
    if request.is_raw:
        captured.keep_raw(info.name, copy)


def wants_norms(items: Sequence[CaptureItem]) -> bool:
    """Return whether some items select the norm of all gradients, or every gradient's l2, of which it follows."""
    return any(
        (item.collection == GRADIENT_NORMS and "value" in item.statistics)
        or (item.collection == "all" and item.source == "option")
        or (item.collection == "gradients" and item.regex is None and "l2" in item.statistics)
        for item in items
    )


def numbers_of(values: Sequence[Values], collection: str) -> dict[str, float]:
    """Return the numbers of a collection that were added as such."""
    return {value.info.name: float(value.numbers[0, 1]) for value in values if collection in value.info.collections}


def norm_of(values: Sequence[Values]) -> float | None:
    """Return the norm of all gradients among some values; None if there are none."""
    with np.errstate(all="ignore"):
        squares = [
            float(value.numbers[0, 1 + value.primaries.index("l2")]) ** 2
            for value in values
            if "gradients" in value.info.collections and "l2" in value.primaries
        ]
        return float(np.sqrt(np.sum(squares))) if squares else None


def _info(tapped: Tapped, items: Sequence[CaptureItem]) -> TensorInfo:
    custom = custom_collections(items, tapped.name, tapped.collections)
    shape = tuple(size or 0 for size in tapped.tensor.shape)
    return TensorInfo(tapped.name, (*tapped.collections, *custom), shape, tapped.tensor.dtype.name)


def _with_shape(info: TensorInfo, copy: Array | None) -> TensorInfo:
    if copy is None or info.shape == copy.shape:
        return info
    return TensorInfo(info.name, info.collections, tuple(copy.shape), info.dtype)


def _is_first_replica() -> bool:
    replica = tf.distribute.get_replica_context()
    return replica is None or tf.get_static_value(replica.replica_id_in_sync_group) in (None, 0)
