"""Asynchronous copies from a CUDA device."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from leadline.frameworks.pending import Pending
from leadline.frameworks.torch.capture.untracked import untracked
from leadline.frameworks.torch.kernels.current_stream import CurrentStream

Vector = npt.NDArray[np.float64]


class CudaCopier:
    """See ``AsyncCopier``: uses pinned memory, a side stream, and an event after each copy.

    Numbers of several rows are copied together, because a copy takes the host as long as ten kernels.

    Tested on a GPU only where one is available (``tests/gpu``).
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._side_stream = torch.cuda.Stream(device)
        self._current_stream = CurrentStream(device)
        self._open: _GroupedCopy | None = None

    def is_recording(self) -> bool:
        return bool(torch.cuda.is_current_stream_capturing())

    def fetch(self, numbers: torch.Tensor) -> _NumbersCopy:
        stream = self._current_stream.get()
        if self._open is not None and self._open.stream is not stream:
            self._start_copy(self._open)
        if self._open is None:
            self._open = _GroupedCopy(stream, self._start_copy, self.is_recording)
        group = self._open
        copy = group.add(numbers)
        group.maybe_start()
        return copy

    def pin(self, memory: torch.Tensor) -> object:
        return _Pinned(memory)

    def fill(self, views: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor], max_device_bytes: int) -> Pending:
        if sum(tensor.numel() * tensor.element_size() for tensor in tensors) <= max_device_bytes:
            return _CudaCopy(self._copy_on_side_stream(views, [tensor.clone() for tensor in tensors]))
        # not enough memory for a second copy: copy in the training's stream, ahead of the update
        current = torch.cuda.current_stream(self._device)
        _copy_all(views, tensors)
        return _CudaCopy(_event_after(current))

    def _start_copy(self, group: _GroupedCopy) -> None:
        if self._open is group:
            self._open = None
        with untracked(), torch.cuda.stream(group.stream):
            numbers = torch.cat(group.parts) if len(group.parts) > 1 else group.parts[0]
            host = torch.empty(numbers.shape, dtype=numbers.dtype, device="cpu", pin_memory=True)
            group.note_started(host, self._copy_on_side_stream([host], [numbers]))

    def _copy_on_side_stream(self, views: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> Any:
        self._side_stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._side_stream):
            _copy_all(views, tensors)
        for tensor in tensors:
            tensor.record_stream(self._side_stream)  # otherwise its memory could be reused before the copy
        return _event_after(self._side_stream)


_MAX_PARTS: Final = 16
"""The number of rows that are copied together."""
_MAX_WAIT_NS: Final = 50_000_000
"""The longest time that a row waits for others."""


class _GroupedCopy:
    """Numbers that are copied together.

    Args:
        stream: The stream in which they are computed.
        start: Starts the copy, and calls ``note_started``.
        is_recording: Returns whether a CUDA graph is being captured, which a copy or a query would abort.
    """

    def __init__(self, stream: Any, start: Callable[[_GroupedCopy], None], is_recording: Callable[[], bool]) -> None:
        self.stream, self._start_copy, self._is_recording = stream, start, is_recording
        self.parts: list[torch.Tensor] = []
        self.host: Vector | None = None
        self._size, self._begun_ns = 0, time.monotonic_ns()
        self._event: Any = None
        self._has_arrived = False

    def add(self, numbers: torch.Tensor) -> _NumbersCopy:
        start, self._size = self._size, self._size + numbers.numel()
        self.parts.append(numbers)
        return _NumbersCopy(self, start, self._size)

    def maybe_start(self) -> None:
        """Start the copy if there are many parts, or the first one has waited for long."""
        if len(self.parts) >= _MAX_PARTS or time.monotonic_ns() - self._begun_ns >= _MAX_WAIT_NS:
            self._start_copy(self)

    def note_started(self, host: torch.Tensor, event: Any) -> None:
        """Note that the copy to pinned memory has started.

        Args:
            event: Recorded after the copy.
        """
        self.host, self._event = host.numpy(), event
        self.parts.clear()

    def is_done(self) -> bool:
        if not self._has_arrived and not self._is_recording():
            if self._event is None:
                self.maybe_start()
            self._has_arrived = self._event is not None and bool(self._event.query())
        return self._has_arrived

    def wait(self) -> None:
        if self._event is None:
            self._start_copy(self)
        self._event.synchronize()
        self._has_arrived = True


class _NumbersCopy:
    """See ``Copy``: the numbers of one row in a ``_GroupedCopy``."""

    __slots__ = ("_end", "_group", "_start")

    def __init__(self, group: _GroupedCopy, start: int, end: int) -> None:
        self._group, self._start, self._end = group, start, end

    def is_done(self) -> bool:
        return self._group.is_done()

    def wait(self) -> None:
        self._group.wait()

    def numbers(self) -> Vector:
        assert self._group.host is not None
        return self._group.host[self._start : self._end]


def _copy_all(views: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> None:
    for view, tensor in zip(views, tensors, strict=True):
        view.copy_(tensor, non_blocking=True)


def _event_after(stream: Any) -> Any:
    event = torch.cuda.Event(blocking=True)
    event.record(stream)
    return event


class _CudaCopy:
    def __init__(self, event: Any) -> None:
        self._event = event

    def is_done(self) -> bool:
        return bool(self._event.query())

    def wait(self) -> None:
        self._event.synchronize()


class _Pinned:
    """Host memory that is registered with the driver during the object's lifetime; if that fails, copies wait."""

    def __init__(self, memory: torch.Tensor) -> None:
        driver = torch.cuda.cudart()
        self._memory = memory  # must outlive the registration
        if int(driver.cudaHostRegister(memory.data_ptr(), memory.numel(), 0)) == 0:
            release = weakref.finalize(self, driver.cudaHostUnregister, memory.data_ptr())
            release.atexit = False  # the driver may be shut down by then
