"""The clocks of the devices that PyTorch computes on beside the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from leadline.training.timeline.device_clock import DeviceClock


class CudaClock:
    """See ``leadline.training.timeline.device_clock.DeviceClock``: an event in the training's own stream for each mark.

    Not proven on a GPU by the project's own tests where none is at hand.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def mark(self) -> Any:
        if torch.cuda.is_current_stream_capturing():
            return None  # a graph is recorded: an event would become a part of it
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def is_past(self, mark: Any) -> bool:
        # to ask while a graph is recorded would end the recording
        return not torch.cuda.is_current_stream_capturing() and bool(mark.query())

    def wait(self, mark: Any) -> None:
        mark.synchronize()

    def between_ns(self, first: Any, second: Any) -> int:
        return int(first.elapsed_time(second) * 1e6)


CLOCKS: Final[dict[str, Callable[[torch.device], DeviceClock]]] = {"cuda": CudaClock}
"""By type of device: how its clock is made."""
