"""Replaced methods of Keras on TensorFlow: updates, layers, losses, and the batches of ``fit`` and ``evaluate``."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any, Final

import tensorflow as tf

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.capture_requests import CapturedTensor
from leadline.frameworks.import_watch import ImportWatch
from leadline.frameworks.keras.callback_lists import follow_callbacks
from leadline.frameworks.keras.loss_facts import facts_of, has_class_indices, is_single_loss
from leadline.frameworks.keras.loss_facts import name_of as name_of_loss
from leadline.frameworks.keras.modes import OutermostCall
from leadline.frameworks.kit.named_tensor import GRADIENTS, NamedTensor
from leadline.frameworks.patches import Patches
from leadline.frameworks.tensorflow.loss_inputs import trace_of
from leadline.frameworks.tensorflow.steps import Steps
from leadline.frameworks.tensorflow.taps import EagerTaps, Taps
from leadline.frameworks.tensorflow.tracing import is_eager
from leadline.frameworks.tensorflow.variable_names import name_of
from leadline.instrumentation.guard import Guard
from leadline.records.names import GRADIENT_NORMS, gradient_name
from leadline.records.plan import CaptureItem

Original = Callable[..., Any]


class _Local(threading.local):
    """The state of a thread: each replica has its own."""

    names: Sequence[str] = ()
    layers: Sequence[str] = ()
    outermost: OutermostCall | None = None
    update: Any = None


class KerasHooks:
    """Replaces methods of Keras's classes as soon as their modules are imported."""

    def __init__(self, steps: Steps, callbacks: StepCallbacks, guard: Guard) -> None:
        self._steps, self._callbacks, self._guard = steps, callbacks, guard
        self._local = _Local()
        self._patches = Patches()
        self._imports: ImportWatch | None = None
        self._modules: Final[dict[str, Callable[[ModuleType], None]]] = {
            "keras.src.optimizers.base_optimizer": self._patch_optimizer,
            "keras.src.optimizers.loss_scale_optimizer": self._patch_scaled_optimizer,
            "keras.src.backend.tensorflow.optimizer": self._patch_backend_optimizer,
            "keras.src.layers.layer": self._patch_layer,
            "keras.src.losses.loss": self._patch_loss,
            "keras.src.regularizers.regularizers": partial(steps.modes.regularizers.install, self._patches),
            "keras.src.backend.tensorflow.trainer": self._patch_trainer,
            "keras.src.callbacks.callback_list": self._patch_callbacks,
        }

    def install(self) -> None:
        """Wait for the modules of Keras."""
        self._imports = ImportWatch(self._modules, self._guard.wrap(self._on_import))
        self._imports.install()

    def uninstall(self) -> None:
        """Restore the methods."""
        if self._imports is not None:
            self._imports.uninstall()
        self._patches.restore()

    def _on_import(self, name: str, module: ModuleType) -> None:
        if _backend() == "tensorflow":
            self._modules[name](module)

    # --- updates ------------------------------------------------------------------------------------------

    def _patch_optimizer(self, module: ModuleType) -> None:
        self._patches.replace(module.BaseOptimizer, "apply", self._make_apply)
        self._patches.replace(module.BaseOptimizer, "scale_loss", self._make_scale_loss)
        self._patches.replace(module.BaseOptimizer, "_clip_gradients", self._make_clip_gradients)

    def _patch_scaled_optimizer(self, module: ModuleType) -> None:
        self._patches.replace(module.LossScaleOptimizer, "apply", self._make_apply)
        self._patches.replace(module.LossScaleOptimizer, "scale_loss", self._make_scale_loss)

    def _patch_backend_optimizer(self, module: ModuleType) -> None:
        self._patches.replace(module.TFOptimizer, "_backend_update_step", self._make_update_step)
        self._patches.replace(module.TFOptimizer, "_all_reduce_sum_gradients", self._make_all_reduce)
        for method in ("_distributed_tf_update_step", "_apply_weight_decay"):
            self._patches.replace(module.TFOptimizer, method, self._make_left_out)

    def _make_apply(self, original: Original) -> Original:
        local, steps, guard = self._local, self._steps, self._guard

        def apply(optimizer: Any, grads: Any, trainable_variables: Any = None) -> Any:
            if not is_eager():
                guard.call(steps.tracing.mark, optimizer=optimizer)
                return original(optimizer, grads, trainable_variables)
            if local.update is None:
                grads, trainable_variables = _listed(grads), _listed(trainable_variables)
                local.update = _EagerUpdate(optimizer)
                try:
                    self._begin_update(optimizer, grads, trainable_variables)
                    result = original(optimizer, grads, trainable_variables)
                    is_skipped = not local.update.has_begun
                finally:
                    local.update = None
                guard.run(steps.end_update, optimizer, is_skipped=is_skipped)
                return result
            self._begin_update(optimizer, grads, trainable_variables)
            return original(optimizer, grads, trainable_variables)

        return apply

    def _begin_update(self, optimizer: Any, grads: Sequence[Any], variables: Any) -> None:
        """Begin an eager update; one that scales gradients begins with the optimizer that it wraps."""
        update = self._local.update
        if hasattr(optimizer, "inner_optimizer") or update.has_begun:
            return
        update.has_begun = True

        def gradients(items: Sequence[CaptureItem]) -> list[CapturedTensor]:
            return _gradients_of(optimizer, grads, variables, items)

        self._guard.run(self._steps.before_optimizer)
        self._guard.run(self._steps.begin_update, update.optimizer, gradients, variables or ())

    def _make_scale_loss(self, original: Original) -> Original:
        steps = self._steps

        def scale_loss(optimizer: Any, loss: Any) -> Any:
            scaled = original(optimizer, loss)
            if scaled is not loss:
                steps.scaled_loss = (scaled, loss)
            return scaled

        return scale_loss

    def _make_clip_gradients(self, original: Original) -> Original:
        steps, guard = self._steps, self._guard

        def _clip_gradients(optimizer: Any, grads: Any) -> Any:
            taps = steps.tracing.taps
            if taps is not None and _clips(optimizer):
                guard.call(steps.layers.call, _tap_norm, taps, optimizer, grads)
            return original(optimizer, grads)

        return _clip_gradients

    def _make_update_step(self, original: Original) -> Original:
        local = self._local

        def _backend_update_step(optimizer: Any, grads: Any, trainable_variables: Any, learning_rate: Any) -> Any:
            local.names = [name_of(variable) for variable in trainable_variables]
            try:
                return original(optimizer, grads, trainable_variables, learning_rate)
            finally:
                local.names = ()

        return _backend_update_step

    def _make_all_reduce(self, original: Original) -> Original:
        local, steps, guard = self._local, self._steps, self._guard

        def _all_reduce_sum_gradients(optimizer: Any, grads_and_vars: Any) -> Any:
            reduced = original(optimizer, grads_and_vars)
            taps = steps.tracing.taps
            if taps is not None and local.names:
                pairs = zip(local.names, reduced, strict=True)
                tapped = [
                    NamedTensor(gradient_name(name), GRADIENTS, grad) for name, (grad, _) in pairs if grad is not None
                ]
                guard.call(steps.layers.call, taps.add, tapped)
            return reduced

        return _all_reduce_sum_gradients

    def _make_left_out(self, original: Original) -> Original:
        """Return a method that a replay leaves out: what it writes would be undone."""
        tracing = self._steps.tracing

        def method(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            return None if tracing.is_tracing_variant else original(optimizer, *args, **kwargs)

        return method

    # --- layers and losses --------------------------------------------------------------------------------

    def _patch_layer(self, module: ModuleType) -> None:
        self._patches.replace(module.Layer, "__call__", self._make_layer_call)

    def _patch_loss(self, module: ModuleType) -> None:
        self._patches.replace(module.Loss, "__call__", self._make_loss_call)

    def _make_layer_call(self, original: Original) -> Original:
        local, guard, steps = self._local, self._guard, self._steps

        def __call__(layer: Any, *args: Any, **kwargs: Any) -> Any:
            taps = self._current_taps()
            outer, outermost = local.layers, local.outermost
            local.outermost = call = outermost or OutermostCall(layer, kwargs)
            name = ""
            if taps is not None:
                name = str(layer.path or "/".join((*outer[-1:], layer.name)))
                local.layers = (*outer, name)
            try:
                outputs = original(layer, *args, **kwargs)
            finally:
                local.layers, local.outermost = outer, outermost
            guard.call(steps.layers.call, steps.modes.add, layer, args, kwargs, call)
            if taps is not None:
                guard.call(
                    steps.layers.call, _tap_layer, taps, layer, name, (args, kwargs), outputs, is_outermost=not outer
                )
            return outputs

        return __call__

    def _make_loss_call(self, original: Original) -> Original:
        guard, steps = self._guard, self._steps

        def __call__(loss: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
            taps = self._current_taps()
            if taps is not None and is_single_loss(loss):
                model = steps.phase.model if steps.phase is not None else None
                guard.call(
                    steps.layers.call,
                    _tap_loss,
                    taps,
                    loss,
                    y_true,
                    y_pred,
                    model=model,
                    is_weighted=sample_weight is not None,
                )
            return original(loss, y_true, y_pred, sample_weight)

        return __call__

    def _current_taps(self) -> Any | None:
        steps = self._steps
        if steps.tracing.taps is not None:
            return steps.tracing.taps
        return steps.eager_taps if steps.eager_taps is not None and is_eager() else None

    # --- fit, evaluate and predict ------------------------------------------------------------------------

    def _patch_trainer(self, module: ModuleType) -> None:
        for method, mode in (("fit", "train"), ("evaluate", "eval"), ("predict", "predict")):
            self._patches.replace(module.TensorFlowTrainer, method, self._phase(mode))

    def _phase(self, mode: str) -> Callable[[Original], Original]:
        steps, guard = self._steps, self._guard

        def make(original: Original) -> Original:
            def method(model: Any, *args: Any, **kwargs: Any) -> Any:
                guard.run(steps.begin_phase, mode, model, args[0] if args else kwargs.get("x"))
                try:
                    return original(model, *args, **kwargs)
                finally:
                    guard.run(steps.end_phase)

            return method

        return make

    def _patch_callbacks(self, module: ModuleType) -> None:
        replace, steps = self._patches.replace, self._steps
        follow_callbacks(self._patches, module.CallbackList, self._callbacks, self._guard)
        replace(module.CallbackList, "on_train_batch_end", self._before(steps.end_batch, steps.loss_only.end_batch))
        for mode in ("test", "predict"):
            replace(module.CallbackList, f"on_{mode}_batch_begin", self._before(steps.begin_eval_batch))
            replace(module.CallbackList, f"on_{mode}_batch_end", self._before(steps.end_eval_batch))

    def _before(
        self, tell: Callable[[Any], None], defer: Callable[[Any], bool] = lambda _: False
    ) -> Callable[[Original], Original]:
        """Return a maker of methods that call ``tell`` with the results of a batch first.

        Args:
            defer: Called before; returns whether that is done later.
        """
        guard = self._guard

        def make(original: Original) -> Original:
            def method(callbacks: Any, batch: Any, logs: Any = None) -> Any:
                if not defer(logs):
                    guard.run(tell, logs)
                return original(callbacks, batch, logs=logs)

            return method

        return make


def _listed(values: Any) -> Any:
    return values if values is None else list(values)


def _backend() -> str:
    """Return the backend of Keras, which is known before the modules above are imported."""
    return str(sys.modules["keras.src.backend.config"].backend())


class _EagerUpdate:
    """An outermost call of an optimizer outside of a function."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.has_begun = False


def _gradients_of(
    optimizer: Any, grads: Sequence[Any], variables: Any, items: Sequence[CaptureItem]
) -> list[CapturedTensor]:
    """Return what ``items`` select of the gradients that an optimizer is about to use."""
    chosen = optimizer._trainable_variables if variables is None else list(variables)
    pairs = [(variable, grad) for variable, grad in zip(chosen, grads, strict=True) if grad is not None]
    scale = optimizer.loss_scale_factor
    unclipped = [grad if scale is None else grad / scale for _, grad in pairs]
    used = optimizer._clip_gradients(unclipped)
    taps = EagerTaps(items)
    if _clips(optimizer):
        _tap_norm(taps, optimizer, unclipped)
    names = [gradient_name(name_of(variable)) for variable, _ in pairs]
    taps.add([NamedTensor(name, GRADIENTS, grad) for name, grad in zip(names, used, strict=True)])
    return taps.values()


def _clips(optimizer: Any) -> bool:
    return bool(optimizer.clipnorm or optimizer.global_clipnorm or optimizer.clipvalue)


def _tap_norm(taps: Any, optimizer: Any, grads: Sequence[Any]) -> None:
    """Capture the norm before clipping, under the name of the optimizer."""
    norm = tf.linalg.global_norm([tf.cast(grad, tf.float64) for grad in grads if grad is not None])
    taps.add_number(optimizer.name, GRADIENT_NORMS, norm)


def _tap_layer(taps: Any, layer: Any, name: str, inputs: Any, outputs: Any, *, is_outermost: bool) -> None:
    if isinstance(taps, Taps):
        tensors = [value for value in tf.nest.flatten(inputs) if tf.is_tensor(value)]
        taps.fact.call(taps.add_layer, layer, name, tensors, outputs)
    kind = type(layer).__name__.lower()
    activation = getattr(getattr(layer, "activation", None), "__name__", "")
    tapped = []
    for side, values in (("input", inputs), ("output", outputs)):
        collections: tuple[str, ...] = ("layers", f"{kind}_{side}")
        if side == "output" and activation not in ("", "linear", kind):
            collections = (*collections, f"{activation}_output")
        if is_outermost:
            collections = (f"{side}s", *collections)
        tensors = [value for value in tf.nest.flatten(values) if tf.is_tensor(value)]
        tapped += [NamedTensor(f"{name}_{side}_{at}", collections, tensor) for at, tensor in enumerate(tensors)]
    taps.add(tapped)


def _tap_loss(taps: Any, loss: Any, labels: Any, predictions: Any, *, model: Any, is_weighted: bool) -> None:
    if not (tf.is_tensor(labels) and tf.is_tensor(predictions)):
        return
    if isinstance(taps, Taps) and hasattr(predictions, "op"):
        taps.fact.call(_tap_facts, taps, loss, labels, predictions, model=model, is_weighted=is_weighted)
    name = name_of_loss(loss)
    kind = f"{name.replace('_', '')}_input"
    if has_class_indices(loss):
        labels = tf.cast(labels, tf.int64)
    sides = (("predictions", predictions), ("labels", labels))
    taps.add(
        [
            NamedTensor(f"{name}_input_{at}", (collection, "layers", kind), tensor)
            for at, (collection, tensor) in enumerate(sides)
        ]
    )


def _tap_facts(taps: Taps, loss: Any, labels: Any, predictions: Any, *, model: Any, is_weighted: bool) -> None:
    found = facts_of(loss, labels, predictions, trace_of(predictions), model=model, is_weighted=is_weighted)
    if found is not None:
        taps.add_loss_facts(found)
