"""Copies of raw tensors into host buffers, in safetensors dtypes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from leadline.formats.safetensors import STANDARD_NAMES
from leadline.frameworks.pending import Pending
from leadline.frameworks.torch.capture.device_copy import copier_of
from leadline.store.tensors import CaptureForm, HostBuffer

_TYPES: Final[dict[torch.dtype, str]] = {
    getattr(torch, dtype): name for dtype, name in STANDARD_NAMES.items() if hasattr(torch, dtype)
}
"""The names in files of PyTorch's types: older versions lack some of them."""


def unstorable_reason(tensor: torch.Tensor) -> str | None:
    """Return the reason why a tensor cannot be stored as a raw tensor; None if it can."""
    if tensor.is_meta or tensor.is_nested or tensor.layout is not torch.strided:
        return f"only dense tensors are stored raw, not {tensor.layout}"
    if tensor.dtype not in _TYPES:
        return f"safetensors has no type {tensor.dtype}"
    return None


class RawForm:
    """Layout of a list of raw tensors, created once and filled at many steps."""

    def __init__(self, tensors: Sequence[tuple[str, torch.Tensor]], mode: str) -> None:
        # The widest elements first, so that every tensor is aligned to its element size.
        self._order = sorted(range(len(tensors)), key=lambda index: -tensors[index][1].element_size())
        self._types = [tensors[index][1].dtype for index in self._order]
        self.form = CaptureForm([_entry(*tensors[index]) for index in self._order], mode)

    def fill(self, buffer: HostBuffer, tensors: Sequence[torch.Tensor], max_device_bytes: int = 0) -> Pending | None:
        """Copy tensors, with the same shapes and dtypes as those of the form, into a buffer.

        Args:
            max_device_bytes: Device memory that the copies may use temporarily.
        Returns:
            The pending copy; None if it is done.
        """
        copiers = {tensor.device: copier_of(tensor.device) for tensor in tensors}
        if buffer.views is None:
            buffer.views = _Views(self._views(buffer))
        ordered = [tensors[index] for index in self._order]
        pending = []
        for device, copier in copiers.items():
            pairs = [
                (view, tensor)
                for view, tensor in zip(buffer.views.views, ordered, strict=True)
                if tensor.device == device
            ]
            views, on_device = [view for view, _ in pairs], [tensor for _, tensor in pairs]
            if copier is None:
                torch._foreach_copy_(views, on_device)
                continue
            buffer.views.pinned = buffer.views.pinned or copier.pin(torch.frombuffer(buffer.memory, dtype=torch.uint8))
            pending.append(copier.fill(views, on_device, max_device_bytes))
        return _All(pending) if pending else None

    def _views(self, buffer: HostBuffer) -> list[torch.Tensor]:
        views = []
        for slot, dtype in zip(self.form.slots, self._types, strict=True):
            count = math.prod(slot.shape)
            if not count:
                views.append(torch.empty(slot.shape, dtype=dtype, device="cpu"))
                continue
            start = self.form.header_bytes + slot.offset
            flat = torch.frombuffer(buffer.memory, dtype=dtype, count=count, offset=start)
            views.append(flat.view(slot.shape))
        return views


@dataclass(slots=True)
class _Views:
    """Tensor views of a buffer, and the object that keeps its memory pinned."""

    views: list[torch.Tensor]
    pinned: object = None


@dataclass(frozen=True, slots=True)
class _All:
    """See ``leadline.frameworks.pending.Pending``: copies from several devices."""

    parts: list[Pending]

    def is_done(self) -> bool:
        return all(part.is_done() for part in self.parts)

    def wait(self) -> None:
        for part in self.parts:
            part.wait()


def _entry(name: str, tensor: torch.Tensor) -> tuple[str, str, tuple[int, ...], Any]:
    size = tensor.numel() * tensor.element_size()
    return name, _TYPES[tensor.dtype], tuple(tensor.shape), size
