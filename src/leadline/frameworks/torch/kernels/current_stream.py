"""The current stream of a CUDA device."""

from __future__ import annotations

from typing import Any

import torch


class CurrentStream:
    """The current stream of a device; where it has not changed, without creating an object for it."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._index = device, device.index
        self._stream: Any = None

    def get(self) -> Any:
        """Return the current stream of the device."""
        if self._stream is None or torch._C._cuda_getCurrentRawStream(self._index) != self._stream.cuda_stream:
            self._stream = torch.cuda.current_stream(self._device)
        return self._stream
