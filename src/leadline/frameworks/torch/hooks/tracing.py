"""Isolation from PyTorch's tracing, fake tensors, dispatch modes and function transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch
from torch.utils._python_dispatch import _disable_current_modes

from leadline.training.guard import Guard

P = ParamSpec("P")
R = TypeVar("R")


def is_transformed() -> bool:
    """Whether the current code is traced, run on fake tensors, counted by a dispatch mode or under ``torch.func``."""
    return (
        torch._C._get_tracing_state() is not None
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._functorch.maybe_current_level() is not None
    )


class DispatchModeGuard:
    """Guard that runs its calls outside the script's dispatch modes, such as one that counts operations.

    **Fake tensors** - while a fake tensor mode is active nothing is called: a simulated step is not a step.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
        """See ``leadline.training.guard.Guard.run``."""
        if not torch._C._len_torch_dispatch_stack():
            return self._guard.run(function, *args, **kwargs)
        if _fake_mode() is not None:
            return None
        with _disable_current_modes():
            return self._guard.run(function, *args, **kwargs)


def _fake_mode() -> Any:
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)
