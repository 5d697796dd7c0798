"""The callbacks of Keras: those that run ahead of a step, and those that watch a metric the wrong way round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.kit.watched_metrics import checks_of, of_callbacks
from leadline.frameworks.patches import Patches
from leadline.instrumentation.guard import Guard


def follow_callbacks(patches: Patches, callback_list: type, callbacks: StepCallbacks, guard: Guard) -> None:
    """Replace the methods that call callbacks ahead of a step: what these log belongs to the step that follows.

    ``on_train_begin`` stays as it is: our callback for Keras finds the loop among its callers.
    """
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

    def make_epoch(original: Callable[..., Any]) -> Callable[..., Any]:
        announced = make(original)

        def on_epoch_begin(listed: Any, *args: Any, **kwargs: Any) -> Any:
            guard.run(fact.call, note, listed)
            return announced(listed, *args, **kwargs)

        return on_epoch_begin

    patches.replace(callback_list, "on_epoch_begin", make_epoch)
    patches.replace(callback_list, "on_train_batch_begin", make)
