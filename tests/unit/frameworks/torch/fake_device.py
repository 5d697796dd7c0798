"""Fake accelerator whose copies arrive only on request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from leadline.frameworks.torch.capture import device_copy


class FakeCopy:
    """A copy that holds the values at the time of the request, and delivers them when it arrives."""

    def __init__(self, device: FakeDevice, tensors: list[torch.Tensor], views: Sequence[torch.Tensor] = ()) -> None:
        self._device, self._tensors, self._views = device, tensors, views
        self.has_arrived = False

    def arrive(self) -> None:
        for view, tensor in zip(self._views, self._tensors, strict=bool(self._views)):
            view.copy_(tensor)
        self.has_arrived = True

    def is_done(self) -> bool:
        return self.has_arrived

    def wait(self) -> None:
        self._device.waits += 1
        if not self.has_arrived:
            self.arrive()

    def numbers(self) -> np.ndarray:
        assert self.has_arrived, "numbers were read before they arrived"
        return self._tensors[0].numpy()


class FakeDevice:
    """See ``device_copy.AsyncCopier``; ``arrive`` completes all copies but the latest."""

    def __init__(self, device: torch.device | None = None) -> None:
        self.waits = 0
        self.fetched = 0
        self.pinned: list[int] = []
        self.copy_limits: list[int] = []
        self.is_capturing = False
        self._pending: list[FakeCopy] = []

    def is_recording(self) -> bool:
        return self.is_capturing

    def fetch(self, numbers: torch.Tensor) -> FakeCopy:
        assert not self.is_capturing
        assert numbers.dtype is torch.float64
        self.fetched += 1
        return self._start(FakeCopy(self, [numbers.clone()]))

    def pin(self, memory: torch.Tensor) -> object:
        self.pinned.append(memory.numel())
        return memory

    def fill(self, views: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor], max_device_bytes: int) -> FakeCopy:
        self.copy_limits.append(max_device_bytes)
        return self._start(FakeCopy(self, [tensor.clone() for tensor in tensors], views))

    def arrive(self, *, except_last: int = 0) -> None:
        """Complete all pending copies but the latest."""
        count = max(len(self._pending) - except_last, 0)
        arrived, self._pending = self._pending[:count], self._pending[count:]
        for copy in arrived:
            copy.arrive()

    def _start(self, copy: FakeCopy) -> FakeCopy:
        self._pending.append(copy)
        return copy


def install(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    """Treat the host as a fake accelerator."""
    fake = FakeDevice()

    def make(device: torch.device) -> Any:
        return fake

    monkeypatch.setitem(device_copy.COPIERS, "cpu", make)
    return fake
