"""Observation of models that switch between training and evaluation."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

from leadline.frameworks.patches import Patches
from leadline.frameworks.torch.hooks.dynamo import hide_from_dynamo
from leadline.instrumentation.guard import Guard
from leadline.instrumentation.timeline.deferred_calls import OverheadSpans


class _Depth(threading.local):
    calls = 0


class EvalModeWatch:
    """Reports when a model may have switched between training and evaluation.

    ``Module.train`` is wrapped on the class, because a permanent forward hook that detected the mode would add cost to
    every training step.
    """

    def __init__(
        self, guard: Guard, cost: OverheadSpans, is_evaluation: Callable[[], bool], on_change: Callable[[], None]
    ) -> None:
        """
        Args:
            cost: Measures what it takes.
            is_evaluation: Returns whether an evaluation is under way or begins; many scripts call ``train`` at every
                step, which changes nothing.
            on_change: Called when the outermost ``train`` or ``eval`` of a module has returned, if one is.
        """
        self._guard, self._cost, self._is_evaluation, self._on_change = guard, cost, is_evaluation, on_change
        self._patches = Patches()

    def install(self) -> None:
        """Wrap ``Module.train``."""
        self._patches.replace(torch.nn.Module, "train", self._make_train)

    def uninstall(self) -> None:
        """Restore ``Module.train``, unless another library has wrapped it since."""
        self._patches.restore()
        self._on_change = lambda: None

    def _change(self) -> None:
        begun = self._cost.begin()
        self._on_change()
        self._cost.end(begun)

    def _make_train(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, depth, is_evaluation = self._guard, _Depth(), self._is_evaluation

        def train(self_: torch.nn.Module, mode: bool = True) -> Any:
            depth.calls += 1
            try:
                return original(self_, mode)
            finally:
                depth.calls -= 1
                if depth.calls == 0 and guard.call(is_evaluation):
                    guard.run(self._change)

        return hide_from_dynamo(train)
