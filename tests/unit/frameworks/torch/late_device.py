"""A device at the driver's edge whose copies come only when told to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from leadline.frameworks.torch.capture import device_copy


class FakeCopy:
    """A copy that holds what there was when it was asked for, and gives it when it has come."""

    def __init__(self, device: FakeDevice, taken: list[torch.Tensor], into: Sequence[torch.Tensor] = ()) -> None:
        self._device, self._taken, self._into = device, taken, into
        self.has_come = False

    def come(self) -> None:
        for view, tensor in zip(self._into, self._taken, strict=bool(self._into)):
            view.copy_(tensor)
        self.has_come = True

    def is_done(self) -> bool:
        return self.has_come

    def wait(self) -> None:
        self._device.waits += 1
        if not self.has_come:
            self.come()

    def numbers(self) -> np.ndarray:
        assert self.has_come, "numbers were read before they came"
        return self._taken[0].numpy()


class FakeDevice:
    """See ``readout.Edge``; ``arrive`` lets the copies of all but the latest steps come."""

    def __init__(self, device: torch.device | None = None) -> None:
        self.waits = 0
        self.fetched = 0
        self.pinned: list[int] = []
        self.rooms: list[int] = []
        self.is_captured = False
        self._under_way: list[FakeCopy] = []

    def is_recording(self) -> bool:
        return self.is_captured

    def fetch(self, numbers: torch.Tensor) -> FakeCopy:
        assert not self.is_captured
        assert numbers.dtype is torch.float64
        self.fetched += 1
        return self._begun(FakeCopy(self, [numbers.clone()]))

    def pin(self, memory: torch.Tensor) -> object:
        self.pinned.append(memory.numel())
        return memory

    def fill(self, views: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor], room_bytes: int) -> FakeCopy:
        self.rooms.append(room_bytes)
        return self._begun(FakeCopy(self, [each.clone() for each in tensors], views))

    def arrive(self, *, but: int = 0) -> None:
        """Let everything come but the latest copies."""
        count = max(len(self._under_way) - but, 0)
        arrived, self._under_way = self._under_way[:count], self._under_way[count:]
        for each in arrived:
            each.come()

    def _begun(self, copy: FakeCopy) -> FakeCopy:
        self._under_way.append(copy)
        return copy


def install(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    """Have everything on the host treated as if it were on such a device."""
    fake = FakeDevice()

    def make(device: torch.device) -> Any:
        return fake

    monkeypatch.setitem(device_copy.MAKERS, "cpu", make)
    return fake
