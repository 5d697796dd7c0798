"""The adapter of Keras on PyTorch: Keras updates the parameters with optimizers of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import keras
from keras.src.callbacks.callback_list import CallbackList
from keras.src.optimizers.base_optimizer import BaseOptimizer

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.keras.callback_lists import follow_callbacks
from leadline.frameworks.keras.frozen import frozen_parameters
from leadline.frameworks.labels import Labels
from leadline.frameworks.patches import Patches
from leadline.frameworks.process_memory import process_memory
from leadline.frameworks.training_description import TrainingDescription
from leadline.instrumentation.guard import Guard
from leadline.records.names import Family
from leadline.records.plan import CaptureItem, needs_forward_pass

if TYPE_CHECKING:
    from leadline.frameworks.keras.subject import KerasSubject


def adapter_of_backend(note: Callable[[str], None]) -> KerasAdapter | None:
    """Return the adapter of Keras for its backend; None on TensorFlow and JAX, whose own adapters serve Keras too.

    Args:
        note: Takes a line about something that cannot be captured.
    Raises:
        ImportError: Keras is not captured on this backend.
    """
    backend = keras.backend.backend()
    if backend in ("tensorflow", "jax"):
        return None
    if backend != "torch":
        raise ImportError(f"its backend is {backend}")
    return KerasAdapter(note)


class _Local(threading.local):
    is_applying = False


class KerasAdapter:
    """See ``leadline.frameworks.adapter.Adapter``.

    An optimizer of Keras ends the steps and names the parameters by their paths; backward passes, losses and layers are
    observed by the PyTorch adapter. Gradients are those of the parameters: before Keras clips them.
    """

    name = "keras"
    family: Family = "network"

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._labels = Labels()
        self._patches = Patches()
        self._fitted: list[Any] = []
        """The models whose ``fit`` is running."""
        self._given: Sequence[Any] = ()
        """The variables of the current update: an optimizer has none before its first one."""
        self._has_updated = False
        """Whether an optimizer has updated anything since the last batch of ``fit``."""

    def version(self) -> str:
        return f"{keras.__version__} (PyTorch)"

    def knows(self, thing: object) -> bool:
        return isinstance(thing, BaseOptimizer)

    def captures_between_steps(self, item: CaptureItem) -> bool:
        return needs_forward_pass(item)  # as the PyTorch adapter, which may be added later

    def watch_forward(self, items: Sequence[CaptureItem]) -> None:
        """Do nothing: the PyTorch adapter captures forward passes."""

    def end_forward(self) -> None:
        return None

    def steps_before(self, optimizer: Any) -> int | None:
        """Return the iterations of an optimizer."""
        return int(keras.ops.convert_to_numpy(optimizer.iterations))

    def register(self, model: object) -> None:
        """Do nothing: variables are found by the optimizers that update them."""

    def describe(self) -> TrainingDescription:
        return {}

    def install(self, callbacks: StepCallbacks, guard: Guard) -> None:
        local = _Local()

        def begin(optimizer: Any) -> None:
            self._has_updated = True
            callbacks.before_update(optimizer)
            callbacks.timeline.begin_update()

        def end(optimizer: Any) -> None:
            callbacks.timeline.end_update()
            if callbacks.wants_checks():
                callbacks.record_checks(process_memory())
            callbacks.after_update(optimizer, is_skipped=False)

        def make_apply(original: Callable[..., Any]) -> Callable[..., Any]:
            def apply(optimizer: Any, grads: Any, trainable_variables: Any = None) -> Any:
                if local.is_applying:
                    return original(optimizer, grads, trainable_variables)
                if trainable_variables is not None:
                    trainable_variables = list(trainable_variables)
                local.is_applying = True
                self._given = trainable_variables or ()
                try:
                    guard.run(begin, optimizer)
                    result = original(optimizer, grads, trainable_variables)
                finally:
                    local.is_applying, self._given = False, ()
                guard.run(end, optimizer)
                return result

            return apply

        self._patches.replace(BaseOptimizer, "apply", make_apply)
        self._install_in_fit(callbacks, guard)

    def _install_in_fit(self, callbacks: StepCallbacks, guard: Guard) -> None:
        def make_fit(original: Callable[..., Any]) -> Callable[..., Any]:
            def fit(model: Any, *args: Any, **kwargs: Any) -> Any:
                self._fitted.append(model)
                try:
                    return original(model, *args, **kwargs)
                finally:
                    self._fitted.pop()

            return fit

        def end_batch() -> None:
            if self._fitted and not self._has_updated:
                _end_batch_without_update(callbacks, self._fitted[-1])
            self._has_updated = False

        def make_batch_end(original: Callable[..., Any]) -> Callable[..., Any]:
            def on_train_batch_end(listed: Any, batch: Any, logs: Any = None) -> Any:
                guard.run(end_batch)
                return original(listed, batch, logs=logs)

            return on_train_batch_end

        self._patches.replace(keras.Model, "fit", make_fit)
        self._patches.replace(CallbackList, "on_train_batch_end", make_batch_end)
        follow_callbacks(self._patches, CallbackList, callbacks, guard)

    def end_training(self) -> bool:
        for model in self._fitted:
            model.stop_training = True
        return bool(self._fitted)

    def uninstall(self) -> None:
        self._patches.restore()

    def subject(self, optimizer: Any) -> KerasSubject:
        from leadline.frameworks.keras.subject import KerasSubject

        return KerasSubject(optimizer, self._given, self._labels, self._note)


def _end_batch_without_update(callbacks: StepCallbacks, model: Any) -> None:
    """End a step at a batch that updated nothing, because the whole model is frozen."""
    checks = frozen_parameters(model)
    if not checks:
        return
    callbacks.before_update(model.optimizer)
    if callbacks.wants_checks():
        callbacks.record_checks({**process_memory(), **checks})
    callbacks.after_update(model.optimizer, is_skipped=False)
