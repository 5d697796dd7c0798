"""Clocks of the accelerators that PyTorch computes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from leadline.training.timeline.device_clock import DeviceClock


class CudaClock:
    """See ``leadline.training.timeline.device_clock.DeviceClock``: an event in the training's stream for each mark.

    Tested on a GPU only where one is available (``tests/gpu``).
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def mark(self) -> Any:
        if torch.cuda.is_current_stream_capturing():
            return None  # during graph capture an event would become part of the graph
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def is_past(self, mark: Any) -> bool:
        # a query during graph capture would abort the capture
        return not torch.cuda.is_current_stream_capturing() and bool(mark.query())

    def wait(self, mark: Any) -> None:
        mark.synchronize()

    def between_ns(self, first: Any, second: Any) -> int:
        return int(first.elapsed_time(second) * 1e6)


CLOCKS: Final[dict[str, Callable[[torch.device], DeviceClock]]] = {"cuda": CudaClock}
"""Constructors of clocks, by device type."""
