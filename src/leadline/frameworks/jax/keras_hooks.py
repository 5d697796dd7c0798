"""Keras on JAX: updates named by the paths of the variables, layers, and the losses of batches."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import jax

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.jax.keras_evaluation import KerasEvaluation
from leadline.frameworks.jax.layers import Layers
from leadline.frameworks.jax.scalars import EpochMeans, JaxScalar
from leadline.frameworks.jax.training_taps import TrainingTaps
from leadline.frameworks.keras.batches import has_own_step, labels_of
from leadline.frameworks.keras.callback_lists import follow_callbacks
from leadline.frameworks.kit.named_tensor import NamedTensor
from leadline.frameworks.patches import Patches
from leadline.instrumentation.guard import Guard

Original = Callable[..., Any]


class _Local(threading.local):
    is_applying = False


class KerasOnJax:
    """Taps what optimizers and layers of Keras are given, while they are traced.

    Args:
        taps: Taps updates.
        layers: Taps layers.
        progress: Tells whether the current step has begun.
    """

    def __init__(self, taps: TrainingTaps, layers: Layers, callbacks: StepCallbacks, guard: Guard) -> None:
        self._taps, self._layers = taps, layers
        self._patches, self._local = Patches(), _Local()
        self._means = EpochMeans()
        self._callbacks, self._guard = callbacks, guard
        self._evaluation = KerasEvaluation(callbacks)
        self.fitted: list[Any] = []
        """The models whose ``fit`` is running."""
        self.modules: dict[str, Callable[[ModuleType], None]] = {
            "keras.src.optimizers.base_optimizer": self._follow_optimizer,
            "keras.src.layers.layer": self._follow_layer,
            "keras.src.backend.jax.trainer": self._follow_trainer,
            "keras.src.callbacks.callback_list": self._follow_callbacks,
        }

    @property
    def evaluation(self) -> KerasEvaluation:
        """The batches that it evaluates."""
        return self._evaluation

    def uninstall(self) -> None:
        """Restore the methods."""
        self._patches.restore()

    def losses_of(self, result: Any, args: Sequence[Any]) -> list[JaxScalar]:
        """Return the loss of a batch, from what the training function of Keras returns: a mean over the epoch."""
        if not self.fitted or not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], dict)):
            return []
        mean, leaves = result[0].get("loss"), jax.tree_util.tree_leaves(args[1:])
        return [self._means.next(mean, len(leaves[0]))] if mean is not None and leaves else []

    def labels_of_step(self, args: Sequence[Any]) -> list[NamedTensor]:
        """Return the labels of a batch, from what the training function of Keras is given."""
        model = self.fitted[-1] if self.fitted else None
        if model is None or len(args) != 2 or has_own_step(model, "train_step"):
            return []
        return labels_of(model, args[1])

    def _follow_optimizer(self, module: ModuleType) -> None:
        self._patches.replace(module.BaseOptimizer, "apply", self._make_apply)

    def _make_apply(self, original: Original) -> Original:
        local, taps = self._local, self._taps

        def apply(optimizer: Any, grads: Any, trainable_variables: Any = None) -> Any:
            if local.is_applying:
                return original(optimizer, grads, trainable_variables)
            if trainable_variables is not None:
                trainable_variables = list(trainable_variables)
            grads = list(grads)
            local.is_applying = True
            try:
                pairs = taps.begin_keras_update(optimizer, grads, trainable_variables)
                result = original(optimizer, grads, trainable_variables)
            finally:
                local.is_applying = False
            taps.end_keras_update(pairs)
            return result

        return apply

    def _follow_layer(self, module: ModuleType) -> None:
        layers = self._layers

        def make(original: Original) -> Original:
            def __call__(layer: Any, *args: Any, **kwargs: Any) -> Any:
                path = layers.path_of_keras(layer)
                if path is None:
                    return original(layer, *args, **kwargs)
                return layers.call(layer, path, lambda: original(layer, *args, **kwargs), (args, kwargs))

            return __call__

        def make_stateless(original: Original) -> Original:
            def stateless_call(layer: Any, variables: Any, others: Any, *args: Any, **kwargs: Any) -> Any:
                path = layers.path_of_keras(layer)
                if path is None:
                    return original(layer, variables, others, *args, **kwargs)
                call = functools.partial(original, layer, variables, others, *args, **kwargs)
                return layers.call(layer, path, call, (args, kwargs), returns_state=True)

            return stateless_call

        self._patches.replace(module.Layer, "__call__", make)
        self._patches.replace(module.Layer, "stateless_call", make_stateless)

    def _follow_trainer(self, module: ModuleType) -> None:
        def make(original: Original) -> Original:
            def fit(model: Any, *args: Any, **kwargs: Any) -> Any:
                self.fitted.append(model)
                self._means = EpochMeans()
                try:
                    return original(model, *args, **kwargs)
                finally:
                    self.fitted.pop()

            return fit

        self._patches.replace(module.JAXTrainer, "fit", make)
        self._patches.replace(module.JAXTrainer, "evaluate", self._evaluation.make_evaluate())
        if getattr(getattr(module, "jit", None), "__module__", "").startswith("jax."):
            self._patches.replace(module, "jit", _make_jit)  # imported before the script's jax.jit was replaced

    def _follow_callbacks(self, module: ModuleType) -> None:
        def make(original: Original) -> Original:
            def on_epoch_begin(callbacks: Any, *args: Any, **kwargs: Any) -> Any:
                self._means = EpochMeans()
                return original(callbacks, *args, **kwargs)

            return on_epoch_begin

        self._patches.replace(module.CallbackList, "on_epoch_begin", make)
        follow_callbacks(self._patches, module.CallbackList, self._callbacks, self._guard)
        self._evaluation.follow_callbacks(self._patches, module.CallbackList, self._guard)


def _make_jit(original: Original) -> Original:
    @functools.wraps(original)
    def jit(*args: Any, **kwargs: Any) -> Any:
        return jax.jit(*args, **kwargs)

    return jit
