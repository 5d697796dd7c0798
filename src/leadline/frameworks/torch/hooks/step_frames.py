"""The optimizer steps that are running, by thread."""

from __future__ import annotations

import threading
from types import FrameType

import torch


class StepFrame:
    """The current outermost optimizer step of a thread."""

    __slots__ = ("caller", "depth", "found_inf", "has_read_gradients", "optimizer")

    def __init__(self, optimizer: object, caller: FrameType | None) -> None:
        """
        Args:
            caller: The frame of the step; None: whoever creates this object discards it, even if the step raises.
        """
        self.optimizer = optimizer
        self.caller = caller
        self.depth = 0
        self.has_read_gradients = False
        self.found_inf: torch.Tensor | None = None
        """Above 0 if a fused optimizer will skip the update itself: its scaler calls it regardless."""

    def is_stale(self, current: FrameType) -> bool:
        """Whether an exception ended the step: its frame is no longer on the stack."""
        if self.caller is None:
            return False
        frame: FrameType | None = current
        while frame is not None:
            if frame is self.caller:
                return False
            frame = frame.f_back
        return True


class StepThread(threading.local):
    """What a thread is doing."""

    frame: StepFrame | None = None
    """Its current step."""
