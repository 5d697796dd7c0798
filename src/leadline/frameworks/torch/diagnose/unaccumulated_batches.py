"""Updates after each batch, although Accelerate is to accumulate gradients over several."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Final

from leadline.frameworks.torch.diagnose.library_check import LibraryCheck
from leadline.frameworks.torch.hooks.tracing import HookGuard
from leadline.instrumentation.guard import Fact
from leadline.records.names import UNACCUMULATED

_ACCELERATOR, _OPTIMIZER = "accelerate.accelerator", "accelerate.optimizer"
_ENGINES: Final = ("DEEPSPEED", "MEGATRON_LM")
"""What accumulates by itself, whatever the script does."""


class UnaccumulatedBatches(LibraryCheck):
    """Counts the backward passes of an Accelerator and the updates of its optimizers.

    Nothing is counted any more once ``accumulate`` or ``no_sync`` is entered.
    """

    def __init__(self, guard: HookGuard, fact: Fact) -> None:
        super().__init__(guard, fact, [_ACCELERATOR, _OPTIMIZER])
        self._steps = self._batches = 0
        """Over how many batches gradients are to be accumulated, and the backward passes so far."""
        self._updates: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._is_handled = False
        """Whether the script, or an engine, says when gradients are accumulated."""

    def results(self) -> dict[str, float]:
        """Return the checks; empty: nothing is to be accumulated."""
        if self._steps < 2:
            return {}
        have_updates = not self._is_handled and self._batches <= max(self._updates.values(), default=0)
        counts = (self._steps, self._batches if have_updates else 0)
        return {f"Accelerate/{check}": float(count) for check, count in zip(UNACCUMULATED, counts, strict=True)}

    def replace(self, name: str, module: Any) -> None:
        if name == _OPTIMIZER:
            self._patches.replace(module.AcceleratedOptimizer, "step", self._make_step, is_optional=True)
            return
        self._patches.replace(module.Accelerator, "backward", self._make_backward, is_optional=True)
        for method in ("accumulate", "no_sync"):
            self._patches.replace(module.Accelerator, method, self._make_context, is_optional=True)

    # The functions below run inside the user's training.

    def _make_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, note = self._guard, self._fact.call

        def backward(accelerator: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._is_handled:
                guard.run(note, self._note_batch, accelerator)
            return original(accelerator, *args, **kwargs)

        return backward

    def _make_step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, note = self._guard, self._fact.call

        def step(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._is_handled:
                guard.run(note, self._note_update, optimizer)
            return original(optimizer, *args, **kwargs)

        return step

    def _make_context(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def enter(*args: Any, **kwargs: Any) -> Any:
            self._is_handled = True
            return original(*args, **kwargs)

        return enter

    def _note_batch(self, accelerator: Any) -> None:
        self._steps = int(accelerator.gradient_accumulation_steps)
        self._is_handled = getattr(accelerator.distributed_type, "name", "") in _ENGINES
        self._batches += 1

    def _note_update(self, optimizer: Any) -> None:
        if optimizer.gradient_state.sync_gradients:
            self._updates[optimizer] = self._updates.get(optimizer, 0) + 1
