"""Numbers and tensors on their way off an accelerator: copied beside the training, and read when they have come."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import torch

from leadline.frameworks.torch.kernels import cuda_statistics, order_statistics
from leadline.frameworks.torch.kernels.order_statistics import PreviousValues
from leadline.frameworks.torch.kernels.statistics import device_statistics
from leadline.training.pending import Pending

Vector = npt.NDArray[np.float64]


class Copy(Pending, Protocol):
    """A copy under way."""

    def numbers(self) -> Vector:
        """What was copied, once it has come."""


class Edge(Protocol):
    """What is asked of an accelerator's driver; tests put a fake in its place.

    **Never waits** - no call waits for the device, nor has the device wait for the host.

    **In order** - a copy holds what the device had computed when it was asked for, whatever is computed later.
    """

    def is_recording(self) -> bool:
        """Whether the training is being recorded rather than run (CUDA graphs): nothing may be asked then."""

    def fetch(self, numbers: torch.Tensor) -> Copy:
        """Copy a tensor, which nobody changes any more, into memory of the edge's own."""

    def pin(self, memory: torch.Tensor) -> object:
        """Make host memory fit for copies that nobody waits for; it stays so while the result is kept."""

    def fill(self, views: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor], room_bytes: int) -> Pending:
        """Copy tensors of the training into pinned host memory.

        Args:
            room_bytes: What the copies may take of the device's memory for a moment.
        """


def edge_of(device: torch.device) -> Edge | None:
    """The edge to a device; None where its numbers are at hand, or can only be had by waiting."""
    make = MAKERS.get(device.type)
    if make is None:
        return None
    known = _EDGES.get((device, make))
    if known is None:
        known = _EDGES[device, make] = make(device)
    return known


def is_recording(device: torch.device) -> bool:
    """Whether what is computed on a device is being recorded rather than run."""
    edge = edge_of(device)
    return edge is not None and edge.is_recording()


class LateNumber:
    """A single number that is still on a device; what is computed of such numbers stays there too."""

    __slots__ = ("on_device",)

    def __init__(self, on_device: torch.Tensor) -> None:
        """
        Args:
            on_device: Shape ``()``, float64, and nobody else's.
        """
        self.on_device = on_device

    def __add__(self, other: LateNumber | float) -> LateNumber:
        with quietly():
            return LateNumber(self.on_device + self._beside(other))

    __radd__ = __add__

    def __truediv__(self, other: LateNumber | float) -> LateNumber:
        with quietly():
            return LateNumber(self.on_device / self._beside(other))

    def __rtruediv__(self, other: float) -> LateNumber:
        with quietly():
            return LateNumber(other / self.on_device)

    def _beside(self, other: LateNumber | float) -> Any:
        if not isinstance(other, LateNumber):
            return other
        return other.on_device.to(self.on_device.device, non_blocking=True)


def number_of(tensor: torch.Tensor) -> LateNumber | float | None:
    """A tensor of one element as a number, as it is now; of a complex one its modulus.

    Returns:
        None where the training is being recorded rather than run.
    """
    with quietly():
        own = tensor.detach()
        own = own.abs() if own.is_complex() else own
        edge = edge_of(own.device)
        if edge is None:
            return float(own)
        if edge.is_recording():
            return None
        return LateNumber(own.to(torch.float64, copy=True).reshape(()))


def scale_of(scaler: Any) -> LateNumber | float:
    """What a gradient scaler multiplies losses by at the moment."""
    on_device = scaler._get_scale_async() if scaler is not None else None
    found = number_of(on_device) if on_device is not None else None
    if found is None:
        return float(scaler._init_scale) if scaler is not None else 1.0
    return found


class quietly:
    """The state in which everything of ours is computed: no autograd, no function modes of anybody."""

    __slots__ = ("_functions", "_gradients")

    def __enter__(self) -> None:
        self._functions, self._gradients = torch._C.DisableTorchFunction(), torch.no_grad()
        self._functions.__enter__()
        self._gradients.__enter__()

    def __exit__(self, *exc: object) -> None:
        self._gradients.__exit__(*exc)
        self._functions.__exit__(*exc)


@dataclass(frozen=True, slots=True)
class _Late:
    """A part of a row that is computed on a device."""

    edge: Edge
    numbers: torch.Tensor
    finish: Callable[[Vector], Vector]
    """Makes the part of the numbers once they have come."""


class DeviceCopies:
    """Gathers the numbers of one row part by part, some at hand, some on devices; each device is asked once."""

    def __init__(self) -> None:
        self._parts: list[Vector | _Late] = []

    def add(self, values: Vector) -> None:
        """A part that is at hand."""
        self._parts.append(values)

    def add_late(self, edge: Edge, numbers: torch.Tensor, finish: Callable[[Vector], Vector]) -> None:
        """A part that is computed on a device.

        Args:
            numbers: Shape ``(n,)``, float64, and nobody else's.
            finish: Makes the part of them once they have come.
        """
        self._parts.append(_Late(edge, numbers, finish))

    def statistics(
        self, tensors: Sequence[torch.Tensor], names: Sequence[str], recall: PreviousValues | None = None
    ) -> None:
        """Statistics of tensors on one device, name by name, as a part.

        Args:
            recall: The tensors' names, for what is compared with the previous capture.
        """
        edge = edge_of(tensors[0].device)
        if edge is None:
            computed = device_statistics(tensors, frozenset(names), recall)
            self.add(np.concatenate([computed[name] for name in names]))
            return
        reduced = [name for name in names if cuda_statistics.knows(name)]
        others = [name for name in names if name not in reduced]
        begun = [cuda_statistics.begin(tensors, reduced)] if reduced else []
        begun += [order_statistics.begin(tensors, others, recall)] if others else []
        order = [[*reduced, *others].index(name) for name in names]

        def finish(come: Vector) -> Vector:
            found, at = [], 0
            for numbers, finish_own in begun:
                found.append(finish_own(come[at : at + numbers.numel()]))
                at += numbers.numel()
            whole: Vector = np.concatenate(found).reshape(len(names), -1)[order].reshape(-1)
            return whole

        self.add_late(edge, torch.cat([numbers for numbers, _ in begun]), finish)

    def close(self, conclude: Callable[[list[Vector]], Vector] | None = None) -> bytes | LateRow:
        """The row of all parts; of devices' numbers the copies are begun.

        Args:
            conclude: Makes the row of the parts; default: one after the other.
        """
        conclude = conclude or _one_after_the_other
        here = [part for part in self._parts if not isinstance(part, _Late)]
        return _packed(conclude(here)) if len(here) == len(self._parts) else LateRow(self._parts, conclude)


class LateRow:
    """See ``leadline.training.pending.PendingNumbers``."""

    def __init__(self, parts: Sequence[Vector | _Late], conclude: Callable[[list[Vector]], Vector]) -> None:
        self._conclude = conclude
        self._pieces: list[Callable[[dict[Edge, Vector]], Vector]] = []
        together: dict[Edge, list[torch.Tensor]] = {}
        for part in parts:
            self._pieces.append(_piece(part, together))
        with quietly():
            self._copies = {edge: edge.fetch(torch.cat(numbers)) for edge, numbers in together.items()}

    def is_done(self) -> bool:
        return all(copy.is_done() for copy in self._copies.values())

    def wait(self) -> None:
        for copy in self._copies.values():
            copy.wait()

    def values(self) -> bytes:
        come = {edge: copy.numbers() for edge, copy in self._copies.items()}
        return _packed(self._conclude([piece(come) for piece in self._pieces]))


def _piece(part: Vector | _Late, together: dict[Edge, list[torch.Tensor]]) -> Callable[[dict[Edge, Vector]], Vector]:
    """How a part is found among what has come; of a late one the numbers join those that are fetched with it."""
    if not isinstance(part, _Late):
        return lambda come: part
    before = together.setdefault(part.edge, [])
    start = sum(each.numel() for each in before)
    before.append(part.numbers)
    edge, finish, end = part.edge, part.finish, start + part.numbers.numel()
    return lambda come: finish(come[edge][start:end])


def row_of(values: Sequence[LateNumber | float]) -> bytes | LateRow:
    """Single numbers, some of them late, as a row."""
    readout = DeviceCopies()
    for value in values:
        edge = edge_of(value.on_device.device) if isinstance(value, LateNumber) else None
        if edge is None:
            readout.add(np.array([float(value.on_device if isinstance(value, LateNumber) else value)]))
        elif isinstance(value, LateNumber):
            readout.add_late(edge, value.on_device.reshape(1), lambda come: come)
    return readout.close()


def _one_after_the_other(parts: list[Vector]) -> Vector:
    return np.concatenate(parts)


def _packed(values: Vector) -> bytes:
    return values.astype("<f8").tobytes()


class CudaEdge:
    """See ``Edge``: pinned memory, a stream beside the training's, and an event behind each copy.

    Not proven on a GPU by the project's own tests where none is at hand; ``tests/gpu`` does where one is.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._beside = torch.cuda.Stream(device)

    def is_recording(self) -> bool:
        return bool(torch.cuda.is_current_stream_capturing())

    def fetch(self, numbers: torch.Tensor) -> _CudaCopy:
        host = torch.empty(numbers.shape, dtype=numbers.dtype, device="cpu", pin_memory=True)
        return _CudaCopy(host, self._copy_beside([host], [numbers]))

    def pin(self, memory: torch.Tensor) -> object:
        return _Pinned(memory)

    def fill(self, views: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor], room_bytes: int) -> Pending:
        if sum(each.numel() * each.element_size() for each in tensors) <= room_bytes:
            return _CudaCopy(None, self._copy_beside(views, [each.clone() for each in tensors]))
        # no room for a second copy: in the training's own stream, where the update comes after it
        current = torch.cuda.current_stream(self._device)
        _copy_all(views, tensors)
        return _CudaCopy(None, _event_behind(current))

    def _copy_beside(self, views: Sequence[torch.Tensor], own: Sequence[torch.Tensor]) -> Any:
        self._beside.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._beside):
            _copy_all(views, own)
        for each in own:
            each.record_stream(self._beside)  # or its memory would be given to the next before it is read
        return _event_behind(self._beside)


def _copy_all(views: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> None:
    for view, tensor in zip(views, tensors, strict=True):
        view.copy_(tensor, non_blocking=True)


def _event_behind(stream: Any) -> Any:
    event = torch.cuda.Event(blocking=True)
    event.record(stream)
    return event


class _CudaCopy:
    def __init__(self, host: torch.Tensor | None, event: Any) -> None:
        self._host, self._event = host, event

    def is_done(self) -> bool:
        return bool(self._event.query())

    def wait(self) -> None:
        self._event.synchronize()

    def numbers(self) -> Vector:
        assert self._host is not None
        found: Vector = self._host.numpy()
        return found


class _Pinned:
    """Host memory that is registered with the driver as long as this lives; where it refuses, copies wait."""

    def __init__(self, memory: torch.Tensor) -> None:
        driver = torch.cuda.cudart()
        self._memory = memory  # must outlive the registration
        if int(driver.cudaHostRegister(memory.data_ptr(), memory.numel(), 0)) == 0:
            release = weakref.finalize(self, driver.cudaHostUnregister, memory.data_ptr())
            release.atexit = False  # the driver may be gone by then


MAKERS: Final[dict[str, Callable[[torch.device], Edge]]] = {"cuda": CudaEdge}
"""By type of device: how its edge is made."""
_EDGES: Final[dict[tuple[torch.device, Any], Edge]] = {}
