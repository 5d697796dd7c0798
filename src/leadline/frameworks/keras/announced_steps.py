"""Callbacks of Keras that run ahead of a step: what they log belongs to the step that follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leadline.frameworks.patches import Patches
from leadline.instrumentation.timeline.step_progress import StepProgress

_AHEAD = ("on_epoch_begin", "on_train_batch_begin")


def follow_announced_steps(patches: Patches, callback_list: type, progress: StepProgress) -> None:
    """Replace the methods that call such callbacks."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def method(*args: Any, **kwargs: Any) -> Any:
            progress.is_announced = True
            try:
                return original(*args, **kwargs)
            finally:
                progress.is_announced = False

        return method

    for name in _AHEAD:
        patches.replace(callback_list, name, make)
