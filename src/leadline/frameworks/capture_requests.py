"""What capture items request of tensors that a device computes statistics of, and what was captured of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.array_capture import CapturedArrays, ColumnSet
from leadline.frameworks.kit.gradient_norms import NORM, norm_info, wants_norm
from leadline.frameworks.kit.named_tensor import GRADIENTS, ON_UPDATE, NamedTensor
from leadline.records.plan import CaptureItem
from leadline.records.series import TensorInfo
from leadline.statistics.arrays import compute_vector
from leadline.statistics.definitions import STATISTICS, find_statistic, primaries
from leadline.statistics.one_pass import compute_all
from leadline.statistics.primaries import derive as derive_statistics

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
_CLIPPED: Final = 1e-6
"""A norm that clipping has reduced by less than this share is the same."""

_PRIMARIES: Final = frozenset(
    {"sum", "l1", "squares", "centred", "min", "max", "abs_min", "zeros", "nan_count", "nonfinite_count"}
)
"""What the device computes."""
DEVICE_STATISTICS: Final = frozenset(
    name
    for name, statistic in STATISTICS.items()
    if statistic.derivation is not None and _PRIMARIES.issuperset(statistic.derivation.primaries)
)
"""The statistics that are derived from it; all others are computed on the host, from the tensor itself."""


def primaries_of(statistics: Iterable[str]) -> tuple[str, ...]:
    """Return the primaries that the device computes for some of ``DEVICE_STATISTICS``, sorted."""
    return tuple(sorted(primaries(frozenset(statistics))))


@dataclass(frozen=True, slots=True)
class TensorRequest:
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


def request_of(items: Sequence[CaptureItem], name: str, collections: tuple[str, ...]) -> TensorRequest:
    """Return what some items request of a tensor."""
    members = frozenset(collections)
    selecting = [item for item in items if item.selects(name, members)]
    statistics = dict.fromkeys(statistic for item in selecting for statistic in item.statistics)
    on_host = tuple(filter(_is_of_host, statistics))
    on_device = [statistic for statistic in statistics if statistic in DEVICE_STATISTICS]
    is_raw = any(item.raw for item in selecting)
    if "max" not in on_device and any(map(_needs_only_a_copy, selecting)):
        on_device.append("max")  # the row carries the collections of the tensor, also if only that item is kept of it
    return TensorRequest(tuple(on_device), on_host, is_raw, ON_UPDATE in statistics)


def request_with_norm(items: Sequence[CaptureItem], tensor: NamedTensor, prefix: str | None) -> TensorRequest:
    """Return what some items request of a tensor; of a gradient also what the norm of all gradients needs.

    Args:
        prefix: See ``wants_norm``.
    """
    request = request_of(items, tensor.name, tensor.collections)
    if tensor.collections == GRADIENTS and "l2" not in request.on_device and wants_norm(items, prefix):
        return replace(request, on_device=(*request.on_device, "l2"))
    return request


_NOT_OF_ONE = frozenset({"update", "number", "pair"})
"""Sources of statistics that do not apply to a single tensor."""


def _is_of_host(statistic: str) -> bool:
    """Return whether a statistic is computed from a copy of the tensor."""
    return statistic not in DEVICE_STATISTICS and find_statistic(statistic).source not in _NOT_OF_ONE


def _needs_only_a_copy(item: CaptureItem) -> bool:
    """Return whether an item requests nothing of a tensor that the device computes."""
    return DEVICE_STATISTICS.isdisjoint(item.statistics) and (item.raw or any(map(_is_of_host, item.statistics)))


class CapturedTensor(NamedTuple):
    """What was captured of one tensor."""

    info: TensorInfo
    primaries: tuple[str, ...]
    numbers: npt.NDArray[np.float64]
    """The number of elements, and one number per primary; shape ``(1, 1 + len(primaries))``."""
    copy: Array | None


def derive(statistics: Sequence[str], primaries: Sequence[str], numbers: Floats) -> Floats:
    """Derive statistics from what ``summarize`` computed.

    Shape:
        numbers: ``(tensors, 1 + len(primaries))``; result: ``(tensors * len(statistics),)``, by tensor.
    """
    known = dict(zip(("size", *primaries), numbers.T, strict=True))
    return np.stack(derive_statistics(statistics, known), axis=1).ravel()


class ColumnSets:
    """The columns of captured tensors; equal ones are one object, so that their rows share a layout."""

    def __init__(self) -> None:
        self._known: dict[tuple[TensorInfo, tuple[str, ...]], ColumnSet] = {}

    def keep(self, captured: CapturedArrays, items: Sequence[CaptureItem], values: Sequence[CapturedTensor]) -> None:
        """Pass on to ``captured`` what ``items`` request of some values."""
        for value in values:
            info = value.info
            request = request_of(items, info.name, info.collections)
            if request.on_device:
                block = self._block(info, request.on_device)
                captured.keep_numbers(block, derive(request.on_device, value.primaries, value.numbers))
            if value.copy is not None and request.needs_copy:
                _keep_copy(captured, info, request, value.copy)

    def keep_array(self, captured: CapturedArrays, info: TensorInfo, request: TensorRequest, array: Array) -> None:
        """Pass on to ``captured`` what is requested of an array on the host, which may change afterwards."""
        if request.on_device:
            self.keep_numbers(captured, info, request.on_device, compute_all(request.on_device, array))
        if request.needs_copy:
            _keep_copy(captured, info, request, array.copy())

    def _block(self, info: TensorInfo, statistics: tuple[str, ...]) -> ColumnSet:
        key = (info, statistics)
        if key not in self._known:
            self._known[key] = ColumnSet((info,), tuple((0, statistic) for statistic in statistics))
        return self._known[key]

    def keep_numbers(
        self, captured: CapturedArrays, info: TensorInfo, statistics: tuple[str, ...], values: Sequence[float]
    ) -> None:
        """Pass on numbers that are statistics already."""
        captured.keep_numbers(self._block(info, statistics), np.array(values, np.float64))

    def keep_norms(
        self, captured: CapturedArrays, items: Sequence[CaptureItem], prefix: str, norms: Mapping[str, float]
    ) -> None:
        """Pass on the norms of all gradients of an optimizer.

        Args:
            prefix: The beginning of their names.
        """
        for name, number in norms.items():
            self.keep_numbers(captured, norm_info(prefix + name, items), ("value",), (number,))


def _keep_copy(captured: CapturedArrays, info: TensorInfo, request: TensorRequest, copy: Array) -> None:
    if any(not find_statistic(name).is_vector for name in request.on_host):
        captured.keep(info.name, info.collections, copy, without=DEVICE_STATISTICS)
        return
    for name in request.on_host:
        if find_statistic(name).source != "units" or copy.ndim >= 1:
            captured.keep_vector(info.name, name, compute_vector(name, copy))
    if request.is_raw:
        captured.keep_raw(info.name, copy)


def numbers_of(values: Sequence[CapturedTensor], collection: str) -> dict[str, float]:
    """Return the numbers of a collection that were added as such."""
    return {value.info.name: float(value.numbers[0, 1]) for value in values if collection in value.info.collections}


def norm_of(values: Sequence[CapturedTensor]) -> float | None:
    """Return the norm of all gradients among some values; None if there are none."""
    with np.errstate(all="ignore"):
        squares = [
            float(derive(("l2",), value.primaries, value.numbers)[0]) ** 2
            for value in values
            if "gradients" in value.info.collections and "squares" in value.primaries
        ]
        return float(np.sqrt(np.sum(squares))) if squares else None


def record_compilation(callbacks: StepCallbacks, took_ns: int, cpu_ns: int) -> None:
    """Record that a program which captures was traced and compiled, between the phases of a step.

    Args:
        took_ns: The time that it took.
        cpu_ns: The processor time of this thread in it.
    """
    callbacks.record_event("compile", {"duration_ms": took_ns / 1e6})
    callbacks.cost.exclude_compilation(took_ns, cpu_ns)
    callbacks.timeline.add_own(took_ns)


def gradient_norms(values: Sequence[CapturedTensor], before: float | None) -> dict[str, float]:
    """Return the norm of all gradients among some values, and what clipping has done to it.

    Args:
        before: The norm before clipping; None if nothing clips.
    """
    norms = {}
    norm = norm_of(values)
    if before is not None:
        norms[f"{NORM}_before_clipping"] = before
        norms["gradient_clipped"] = float(norm is not None and norm < before * (1 - _CLIPPED))
    if norm is not None:
        norms[NORM] = norm
    return norms
