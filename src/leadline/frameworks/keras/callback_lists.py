"""The callbacks of Keras: those that run ahead of a step, and those that watch a metric the wrong way round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.kit.watched_metrics import checks_of, of_callbacks
from leadline.frameworks.patches import Patches
from leadline.instrumentation.guard import Guard

_AHEAD = ("on_epoch_begin", "on_train_batch_begin")
"""What callbacks log in these belongs to the step that follows."""


def follow_callbacks(patches: Patches, callback_list: type, callbacks: StepCallbacks, guard: Guard) -> None:
    """Replace the methods of a class of lists of callbacks that matter."""
    progress, fact = callbacks.timeline.progress, callbacks.facts.of("what callbacks watch is")

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def method(*args: Any, **kwargs: Any) -> Any:
            progress.is_announced = True
            try:
                return original(*args, **kwargs)
            finally:
                progress.is_announced = False

        return method

    def note(listed: Any) -> None:
        callbacks.record_checks(checks_of(of_callbacks(getattr(listed, "callbacks", None))))

    def make_begin(original: Callable[..., Any]) -> Callable[..., Any]:
        def on_train_begin(listed: Any, *args: Any, **kwargs: Any) -> Any:
            guard.run(fact.call, note, listed)
            return original(listed, *args, **kwargs)

        return on_train_begin

    for name in _AHEAD:
        patches.replace(callback_list, name, make)
    patches.replace(callback_list, "on_train_begin", make_begin)
