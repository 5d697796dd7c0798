"""The script's step function, traced again in a scope in which no variable changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from keras.src.backend.tensorflow.optimizer import TFOptimizer
from keras.src.layers.layer import Layer
from keras.src.optimizers.base_optimizer import BaseOptimizer
from keras.src.optimizers.loss_scale_optimizer import LossScaleOptimizer
from tensorflow.python.autograph.core import converter
from tensorflow.python.autograph.impl import api
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

from leadline.frameworks.check.outcome import NotRepeatableError
from leadline.frameworks.patches import Patches

Original = Callable[..., Any]
_SEED_STATE = "seed_generator_state"


class ModelCall:
    """An outermost call of a layer, with the tensors that it was given and has returned."""

    def __init__(self, layer: Any, given: Sequence[Any]) -> None:
        self.layer, self.given = layer, list(given)
        self.returned: list[Any] = []


class Retracing:
    """What a step function does while it is traced again.

    Its functions are traced as part of it, its optimizer is not applied unless that is wanted, and its gradients are
    those for the tensors in place of the variables.

    Args:
        scope: The scope of Keras, which takes all assignments.
        weights: The variables that are trained.
        seed: Is added to the state of all generators of random numbers.
        evaluates: Whether models are called in evaluation mode.
        applies: Whether the optimizer is applied, to the values in the scope.

    Attributes:
        loss: What gradients were computed of; None: none were.
        gradients: Those of the loss, by the identities of the variables.
        used: Those that the optimizer was given, by the identities of the variables; None: none was.
        placeholders: The tensors in place of the arrays of the batch, by their positions.
        calls: The outermost calls of layers with weights.
        called: All layers that were called.
        outputs: What each of them has returned first, with its path and class.
    """

    def __init__(self, scope: Any, weights: Sequence[Any], seed: Any, *, evaluates: bool, applies: bool) -> None:
        self._scope, self._weights, self._seed = scope, list(weights), seed
        self._evaluates, self._applies = evaluates, applies
        self._tensors = {id(variable): scope.get_current_value(variable) for variable in self._weights}
        self._thread = threading.get_ident()
        self._graph: Any = None
        self._depth = 0
        self._begun: dict[int, Any] = {}
        self.is_ours = False
        """Whether gradients are computed that the script has not asked for."""
        self.loss: Any = None
        self.gradients: dict[int, Any] = {}
        self.used: dict[int, Any] | None = None
        self.placeholders: dict[int, Any] = {}
        self.calls: list[ModelCall] = []
        self.called: list[Any] = []
        self.outputs: list[tuple[str, str, Any, Any]] = []

    def run(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Trace a function of the script.

        Raises:
            NotRepeatableError: The step is not one computation of gradients.
        """
        self._graph = tf.compat.v1.get_default_graph()
        with self._patched():
            _inline(function, args, kwargs)
        if self.loss is None:
            raise NotRepeatableError("the step computes no gradients by a GradientTape")

    def changed(self, variable: Any) -> bool:
        """Return whether the step has assigned something to a variable."""
        now = self._scope.get_current_value(variable)
        return now is not None and now is not self._begun.get(id(variable))

    @contextmanager
    def _patched(self) -> Iterator[None]:
        patches = Patches()
        replace = patches.replace
        try:
            replace(Function, "__call__", self._make_inline)
            replace(tf.GradientTape, "__enter__", self._make_enter)
            replace(tf.GradientTape, "gradient", self._make_gradient)
            replace(Layer, "__call__", self._make_layer_call)
            for kind in (BaseOptimizer, LossScaleOptimizer):
                replace(kind, "apply", self._make_apply)
                replace(kind, "scale_loss", self._make_scale_loss)
            if self._applies:
                for name in ("_backend_update_step", "_apply_weight_decay", "assign", "assign_add", "assign_sub"):
                    replace(TFOptimizer, name, self._make_pure(getattr(BaseOptimizer, name)))
                replace(TFOptimizer, "_var_key", self._make_pure(_key_of))
            yield
        finally:
            patches.restore()

    def _own(self, original: Original, substitute: Original) -> Original:
        """Return a method that does something else in this thread."""

        def method(*args: Any, **kwargs: Any) -> Any:
            chosen = substitute if threading.get_ident() == self._thread else original
            return chosen(*args, **kwargs)

        return method

    def _make_pure(self, substitute: Original) -> Callable[[Original], Original]:
        return lambda original: self._own(original, substitute)

    def _make_inline(self, original: Original) -> Original:
        return self._own(original, lambda function, *args, **kwargs: _inline(function, args, kwargs))

    def _make_enter(self, original: Original) -> Original:
        def enter(tape: Any) -> Any:
            entered = original(tape)
            for tensor in self._tensors.values():
                entered.watch(tensor)
            return entered

        return self._own(original, enter)

    def _make_gradient(self, original: Original) -> Original:
        def gradient(tape: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
            if self.is_ours:
                return original(tape, target, sources, *args, **kwargs)
            given = tf.nest.flatten(sources)
            taken = [self._tensors.get(id(source), source) for source in given]
            found = original(tape, target, tf.nest.pack_sequence_as(sources, taken), *args, **kwargs)
            if any(id(source) in self._tensors for source in given):
                if self.loss is not None:
                    raise NotRepeatableError("the step computes several gradients, which are not told apart")
                self.loss = tf.add_n([tf.reduce_sum(tf.cast(loss, tf.float32)) for loss in tf.nest.flatten(target)])
                pairs = zip(given, tf.nest.flatten(found), strict=True)
                self.gradients = {id(source): gradient for source, gradient in pairs if id(source) in self._tensors}
            return found

        return self._own(original, gradient)

    def _make_scale_loss(self, original: Original) -> Original:
        return self._own(original, lambda optimizer, loss: loss)

    def _make_apply(self, original: Original) -> Original:
        def apply(optimizer: Any, grads: Any, trainable_variables: Any = None) -> Any:
            inner = getattr(optimizer, "inner_optimizer", None)
            if inner is not None:
                return inner.apply(grads, trainable_variables)
            grads = list(grads)
            variables = list(trainable_variables or optimizer._trainable_variables)
            self.used = {id(variable): gradient for variable, gradient in zip(variables, grads, strict=True)}
            return original(optimizer, grads, variables) if self._applies else None

        return self._own(original, apply)

    def _make_layer_call(self, original: Original) -> Original:
        def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
            given = [value for value in tf.nest.flatten((args, kwargs)) if tf.is_tensor(value)]
            record = None
            if not self._depth:
                self._seed_generators(layer)
                if self._evaluates and layer._call_has_training_arg:
                    kwargs["training"] = False
                record = ModelCall(layer, given)
            self._depth += 1
            try:
                returned = original(layer, *args, **kwargs)
            finally:
                self._depth -= 1
            tensors = [value for value in tf.nest.flatten(returned) if self._is_reachable(value)]
            self.called.append(layer)
            if tensors and given:
                self.outputs.append((layer.path or layer.name, type(layer).__name__, given[0], tensors[0]))
            if record is not None and layer.weights:
                record.returned = tensors
                self.calls.append(record)
            return returned

        return self._own(original, call)

    def _is_reachable(self, value: Any) -> bool:
        """Whether a value is a tensor of the step itself, not of a loop within it."""
        return bool(tf.is_tensor(value)) and getattr(value, "graph", None) is self._graph

    def _seed_generators(self, layer: Any) -> None:
        """Let the generators of a model draw other numbers, if that is wanted."""
        for variable in layer.variables:
            if variable.path.endswith(_SEED_STATE) and id(variable) not in self._begun:
                value = variable.value
                seeded = self._begun[id(variable)] = value + tf.cast(self._seed, value.dtype)
                self._scope.add_update((variable, seeded))


def _inline(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call what a ``tf.function`` compiles as a part of the function that is traced."""
    options = converter.ConversionOptions(recursive=True, user_requested=True)
    return api.converted_call(function.python_function, tuple(args), dict(kwargs), options=options)


def _key_of(optimizer: Any, variable: Any) -> str:
    """Return the key of a variable of Keras, whose value in the scope has none."""
    return str(getattr(variable, "_value", variable)._unique_id)
