"""Asynchronous copies of numbers and tensors from an accelerator to the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import torch

from leadline.frameworks.pending import Pending
from leadline.frameworks.torch.capture.cuda_copier import CudaCopier
from leadline.frameworks.torch.capture.untracked import untracked
from leadline.frameworks.torch.kernels import cuda_statistics, fused_statistics, order_statistics
from leadline.frameworks.torch.kernels.order_statistics import PreviousValues
from leadline.frameworks.torch.kernels.statistics import device_statistics

Vector = npt.NDArray[np.float64]
_COUNTS: Final = frozenset({"nonfinite_count", "nan_count"})


class Copy(Pending, Protocol):
    """A copy in progress."""

    def numbers(self) -> Vector:
        """Return the copied numbers; only after the copy is done."""


class AsyncCopier(Protocol):
    """Asynchronous copies from one accelerator; tests use a fake implementation.

    **Never waits** - no call waits for the device, nor makes the device wait for the host.

    **In order** - a copy holds what the device had computed when it was requested, whatever is computed later.
    """

    def is_recording(self) -> bool:
        """Whether a CUDA graph is being captured; then no copy may be requested."""

    def fetch(self, numbers: torch.Tensor) -> Copy:
        """Copy a tensor that no longer changes into memory of the copier."""

    def pin(self, memory: torch.Tensor) -> object:
        """Pin host memory for asynchronous copies; it stays pinned while the result is alive."""

    def fill(self, views: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor], max_device_bytes: int) -> Pending:
        """Copy tensors of the training into pinned host memory.

        Args:
            max_device_bytes: Device memory that the copies may use temporarily.
        """


def copier_of(device: torch.device) -> AsyncCopier | None:
    """Return the copier of a device; None if its numbers are directly accessible, or only by waiting."""
    make = COPIERS.get(device.type)
    if make is None:
        return None
    known = _KNOWN_COPIERS.get((device, make))
    if known is None:
        known = _KNOWN_COPIERS[device, make] = make(device)
    return known


def is_recording(device: torch.device) -> bool:
    """Whether a device's computation is being captured in a graph rather than run."""
    copier = copier_of(device)
    return copier is not None and copier.is_recording()


class DeviceScalar:
    """A single number that is still on a device; results computed from it stay there too."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        """
        Args:
            tensor: Shape ``()``, float64, not shared with anything else.
        """
        self.tensor = tensor

    def __add__(self, other: DeviceScalar | float) -> DeviceScalar:
        with untracked():
            return DeviceScalar(self.tensor + self._on_same_device(other))

    __radd__ = __add__

    def __truediv__(self, other: DeviceScalar | float) -> DeviceScalar:
        with untracked():
            return DeviceScalar(self.tensor / self._on_same_device(other))

    def __rtruediv__(self, other: float) -> DeviceScalar:
        with untracked():
            return DeviceScalar(other / self.tensor)

    def _on_same_device(self, other: DeviceScalar | float) -> Any:
        if not isinstance(other, DeviceScalar):
            return other
        return other.tensor.to(self.tensor.device, non_blocking=True)


def number_of(tensor: torch.Tensor) -> DeviceScalar | float | None:
    """Return a snapshot of a one-element tensor as a number; for a complex tensor its modulus.

    Returns:
        None while a CUDA graph is being captured, and on the meta device, which holds no values.
    """
    if tensor.is_meta:
        return None
    if is_read_at_once(tensor):
        return float(abs(number)) if isinstance(number := tensor.item(), complex) else float(number)
    with untracked():
        value = tensor.detach()
        value = value.abs() if value.is_complex() else value
        copier = copier_of(value.device)
        if copier is None:
            return float(value)
        if copier.is_recording():
            return None
        return DeviceScalar(value.to(torch.float64, copy=True).reshape(()))


def is_read_at_once(tensor: torch.Tensor) -> bool:
    """Return whether the number of a tensor is on the host, and reading it calls no code of others."""
    is_plain = type(tensor) is torch.Tensor and not torch._C._len_torch_function_stack()
    return is_plain and tensor.is_cpu and "cpu" not in COPIERS


def _has_nonfinite(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is of a type that has NaN or infinity; integers have neither."""
    return bool(tensor.is_floating_point() or tensor.is_complex())


def scale_of(scaler: Any) -> DeviceScalar | float:
    """Return the factor by which a gradient scaler currently multiplies losses."""
    tensor = scaler._get_scale_async() if scaler is not None else None
    scale = number_of(tensor) if tensor is not None else None
    if scale is None:
        return float(scaler._init_scale) if scaler is not None else 1.0
    return scale


@dataclass(frozen=True, slots=True)
class _DevicePart:
    """Part of a row that is computed on a device."""

    copier: AsyncCopier
    numbers: torch.Tensor
    finish: Callable[[Vector], Vector]
    """Converts the numbers to the part after they have been copied."""


class RowBuilder:
    """Collects the numbers of one row from several parts, on the host or on devices, with one copy per device."""

    def __init__(self) -> None:
        self._parts: list[Vector | _DevicePart] = []

    def add(self, values: Vector) -> None:
        """Add a part that is on the host."""
        self._parts.append(values)

    def add_pending(self, copier: AsyncCopier, numbers: torch.Tensor, finish: Callable[[Vector], Vector]) -> None:
        """Add a part that is computed on a device.

        Args:
            numbers: Shape ``(n,)``, float64, not shared with anything else.
            finish: Converts the numbers to the part after they have been copied.
        """
        self._parts.append(_DevicePart(copier, numbers, finish))

    def add_statistics(
        self, tensors: Sequence[torch.Tensor], names: Sequence[str], previous: PreviousValues | None = None
    ) -> None:
        """Add statistics of tensors on one device as a part, ordered by name.

        Args:
            previous: Names and previous values, for change statistics.
        """
        if _COUNTS.issuperset(names) and not any(map(_has_nonfinite, tensors)):
            self.add(np.zeros(len(names) * len(tensors)))  # what stands beside the arrays of labels and tokens
            return
        copier = copier_of(tensors[0].device)
        if copier is None:
            computed = device_statistics(tensors, frozenset(names), previous)
            self.add(np.concatenate([computed[name] for name in names]))
            return
        launch = fused_statistics.launch_for(tensors)
        fused = [name for name in names if launch is not None and fused_statistics.supports(name)]
        reduced = [name for name in names if name not in fused and cuda_statistics.supports(name)]
        others = [name for name in names if name not in fused and name not in reduced]
        begun = [fused_statistics.begin(tensors, fused, launch)] if launch is not None and fused else []
        begun += [cuda_statistics.begin(tensors, reduced)] if reduced else []
        begun += [order_statistics.begin(tensors, others, previous)] if others else []
        order = [[*fused, *reduced, *others].index(name) for name in names]

        def finish(fetched: Vector) -> Vector:
            results, at = [], 0
            for numbers, finish_part in begun:
                results.append(finish_part(fetched[at : at + numbers.numel()]))
                at += numbers.numel()
            whole: Vector = np.concatenate(results).reshape(len(names), -1)[order].reshape(-1)
            return whole

        self.add_pending(copier, torch.cat([numbers for numbers, _ in begun]), finish)

    def finish(self, combine: Callable[[list[Vector]], Vector] | None = None) -> bytes | PendingRow:
        """Return the row of all parts, and start copying the numbers that are on devices.

        Args:
            combine: Builds the row from the parts; default: concatenation.
        """
        combine = combine or _concatenated
        here = [part for part in self._parts if not isinstance(part, _DevicePart)]
        return _encoded(combine(here)) if len(here) == len(self._parts) else PendingRow(self._parts, combine)


class PendingRow:
    """See ``leadline.frameworks.pending.PendingNumbers``."""

    def __init__(self, parts: Sequence[Vector | _DevicePart], combine: Callable[[list[Vector]], Vector]) -> None:
        self._combine = combine
        self._readers: list[Callable[[dict[AsyncCopier, Vector]], Vector]] = []
        by_copier: dict[AsyncCopier, list[torch.Tensor]] = {}
        for part in parts:
            self._readers.append(_part_reader(part, by_copier))
        with untracked():
            self._copies = {
                copier: copier.fetch(torch.cat(numbers) if len(numbers) > 1 else numbers[0])
                for copier, numbers in by_copier.items()
            }

    def is_done(self) -> bool:
        return all(copy.is_done() for copy in self._copies.values())

    def wait(self) -> None:
        for copy in self._copies.values():
            copy.wait()

    def values(self) -> bytes:
        fetched = {copier: copy.numbers() for copier, copy in self._copies.items()}
        return _encoded(self._combine([read(fetched) for read in self._readers]))


def _part_reader(
    part: Vector | _DevicePart, by_copier: dict[AsyncCopier, list[torch.Tensor]]
) -> Callable[[dict[AsyncCopier, Vector]], Vector]:
    """Return the function that extracts a part from the copied numbers; queue a device part's numbers for copying."""
    if not isinstance(part, _DevicePart):
        return lambda fetched: part
    before = by_copier.setdefault(part.copier, [])
    start = sum(numbers.numel() for numbers in before)
    before.append(part.numbers)
    copier, finish, end = part.copier, part.finish, start + part.numbers.numel()
    return lambda fetched: finish(fetched[copier][start:end])


def row_of(values: Sequence[DeviceScalar | float]) -> bytes | PendingRow:
    """Return single numbers, some of them still on a device, as a row."""
    builder = RowBuilder()
    for value in values:
        copier = copier_of(value.tensor.device) if isinstance(value, DeviceScalar) else None
        if copier is None:
            builder.add(np.array([float(value.tensor if isinstance(value, DeviceScalar) else value)]))
        elif isinstance(value, DeviceScalar):
            builder.add_pending(copier, value.tensor.reshape(1), lambda fetched: fetched)
    return builder.finish()


def _concatenated(parts: list[Vector]) -> Vector:
    return np.concatenate(parts)


def _encoded(values: Vector) -> bytes:
    return values.astype("<f8").tobytes()


COPIERS: Final[dict[str, Callable[[torch.device], AsyncCopier]]] = {"cuda": CudaCopier}
"""Constructors of copiers, by device type."""
_KNOWN_COPIERS: Final[dict[tuple[torch.device, Any], AsyncCopier]] = {}
