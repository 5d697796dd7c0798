"""When models that are trained stand in eval mode: told by ``Module.train``, the one place that changes it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch

from leadline.frameworks.torch.hooks.dynamo import hide
from leadline.training.guard import Guard


class _Depth(threading.local):
    calls = 0


class EvalModeWatch:
    """Tells when a model may have changed between training and evaluation.

    ``Module.train`` is wrapped on the class, because a forward hook that stood there to find out would cost every
    training step.
    """

    def __init__(self, guard: Guard, on_change: Callable[[], None]) -> None:
        """
        Args:
            on_change: Called when the outermost ``train`` or ``eval`` of a module has returned.
        """
        self._guard, self._on_change = guard, on_change
        self._original: Any = None

    def install(self) -> None:
        """Begin to tell."""
        self._original = torch.nn.Module.train
        replacement: Any = self._make_train(self._original)
        replacement._leadline = self
        torch.nn.Module.train = replacement

    def uninstall(self) -> None:
        """Stop, unless somebody has wrapped it once more."""
        if getattr(torch.nn.Module.train, "_leadline", None) is self:
            torch.nn.Module.train = self._original
        self._on_change = _nothing

    def _make_train(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, depth = self._guard, _Depth()

        def train(self_: torch.nn.Module, mode: bool = True) -> Any:
            depth.calls += 1
            try:
                return original(self_, mode)
            finally:
                depth.calls -= 1
                if depth.calls == 0:
                    guard.run(self._on_change)

        return hide(functools.wraps(original)(train))


def _nothing() -> None:
    return None
