"""A training step of TensorFlow and Keras as a pure function."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras.src.backend.common.stateless_scope import StatelessScope

from leadline.frameworks.check.memory import COPIES, lack_of_memory
from leadline.frameworks.check.outcome import NotRepeatableError, Tested, not_applicable, one_line
from leadline.frameworks.check.padding import READS_PADDING
from leadline.frameworks.check.samples import REDUCED_ROUNDING, ROUNDING
from leadline.frameworks.pure_check.pure_step import Array, Computed, Leaf, OwnOptimizer, PureStep, Role, StepVariant
from leadline.frameworks.tensorflow.check.modes import test_modes
from leadline.frameworks.tensorflow.check.retracing import Retracing
from leadline.frameworks.tensorflow.check.state import test_state
from leadline.frameworks.tensorflow.replay import refusal_of, written_variables

_OF_KERAS: Final = "one_step_on_data"
"""The name of the function of one batch in Keras."""
_ROLES: Final[tuple[Role, ...]] = ("input", "label", "weight")
_NAMES: Final = ("x", "y", "sample_weight")
_SEED_STEP: Final = 1_000_003
_STILL_DIFFERS: Final = 1e-4
_FIRST_LAYERS: Final = ("Conv", "Dense", "DepthwiseConv", "SeparableConv")

Kind = Literal["train", "own", "eval", "layers", "inputs"]


class _Trace(NamedTuple):
    """A traced form of the step."""

    concrete: Any
    retracing: Retracing
    written: list[Any]
    """Variables that Keras does not know, and that it may write."""


class TracedStep(PureStep):
    """See ``PureStep``. It is traced again with tensors in place of the variables, within a ``StatelessScope``.

    Args:
        function: The function of the script that trains with one batch.
        args: Its arguments, as those of the step.
        optimizer: The optimizer of Keras that it applies.

    Raises:
        NotRepeatableError: The step cannot be computed once more.
    """

    mode: Literal["evaluation", "training"] = "evaluation"
    separator = "/"

    def __init__(
        self,
        function: Any,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        optimizer: Any,
        *,
        number: int,
        deadline: float,
    ) -> None:
        self._function = function
        self._structure = (tuple(args), dict(kwargs))
        self._flat = list(tf.nest.flatten(self._structure))
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        self._optimizer, self.number, self.deadline = inner, number, deadline
        self._variables = list(inner._trainable_variables)
        needed = COPIES * sum(int(np.prod(v.shape)) * np.dtype(np.float32).itemsize for v in self._variables)
        if lacking := lack_of_memory(needed):
            raise NotRepeatableError(lacking)
        self.weights: Sequence[Array] = [np.array(keras.ops.convert_to_numpy(v)) for v in self._variables]
        self.names: Sequence[str] = [variable.path for variable in self._variables]
        self.optimizer, self.rate = type(inner).__name__, float(tf.convert_to_tensor(inner.learning_rate))
        self.is_adaptive = self.optimizer != "SGD"
        self.is_warming_up = _is_warming_up(inner, self.rate)
        self._arrays = {at: np.array(value) for at, value in enumerate(self._flat) if _is_array(value)}
        self._traces: dict[tuple[Any, ...], _Trace] = {}
        self.leaves: Sequence[Leaf] = ()
        retracing = self._trace("train", {}).retracing
        policies = [layer.dtype_policy for layer in retracing.called]
        is_reduced = any(policy.compute_dtype in ("float16", "bfloat16") for policy in policies)
        self.tolerance = REDUCED_ROUNDING if is_reduced else ROUNDING
        self._check_repeatable()
        self.leaves = self._leaves()

    def _check_repeatable(self) -> None:
        first, second = self.compute().loss, self.compute().loss
        if abs(first - second) > _STILL_DIFFERS * max(abs(first), 1e-6):
            raise NotRepeatableError(
                f"computed twice, the step has two losses, {first:.6g} and {second:.6g}: its random numbers cannot be "
                "repeated"
            )

    # --- the batch ------------------------------------------------------------------------------------------

    def _leaves(self) -> list[Leaf]:
        roles, names = self._roles_and_names()
        scaled = self._layers_trace()
        scaled_now = {
            at
            for _, kind, given, _ in scaled.retracing.outputs
            for at, placeholder in scaled.retracing.placeholders.items()
            if given is placeholder and kind.startswith(_FIRST_LAYERS)
        }
        return [
            Leaf(at, names[at], value, roles[at], at not in scaled_now)
            for at, value in self._arrays.items()
            if value.ndim
        ]

    def _layers_trace(self) -> _Trace:
        return self._trace("layers", {})

    def _roles_and_names(self) -> tuple[dict[int, Role], dict[int, str]]:
        """Return what the arrays are, and their names."""
        args, kwargs = self._structure
        python = self._function.python_function
        roles: dict[int, Role] = {}
        names: dict[int, str] = {}
        if getattr(python, "__name__", "") == _OF_KERAS:
            data = args[0] if isinstance(args[0], (tuple, list)) else (args[0],)
            for name, role, part in zip(_NAMES, _ROLES, data, strict=False):
                self._name(part, name, names, roles, role)
            return roles, names
        trace = self._trace("eval", {}).retracing
        given = {id(tensor) for call in trace.calls for tensor in call.given}
        for name, part in _named(python, args, kwargs).items():
            self._name(part, name, names, roles, "")
        for at, placeholder in trace.placeholders.items():
            names.setdefault(at, f"argument {at}")
            roles[at] = "input" if id(placeholder) in given else ""
        return roles, names

    def _name(self, part: Any, name: str, names: dict[int, str], roles: dict[int, Role], role: Role) -> None:
        """Name the arrays in a part of the arguments: by their keys, where they have some."""
        at_of = {id(value): at for at, value in enumerate(self._flat)}
        if isinstance(part, Mapping):
            items = [(str(key), value) for key, value in part.items()]
        else:
            flat = tf.nest.flatten(part)
            items = [(name if len(flat) == 1 else f"{name}[{at}]", value) for at, value in enumerate(flat)]
        for label, value in items:
            for leaf in tf.nest.flatten(value):
                at = at_of.get(id(leaf))
                if at is not None and at in self._arrays:
                    names.setdefault(at, label)
                    roles.setdefault(at, role)

    # --- computing ------------------------------------------------------------------------------------------

    def _trace(self, kind: Kind, given: Mapping[int, Array]) -> _Trace:
        arrays = {**self._arrays, **given}
        key = (kind, *((at, value.shape) for at, value in arrays.items()))
        if key not in self._traces:
            self._traces[key] = self._traced(kind, arrays)
        return self._traces[key]

    def _traced(self, kind: Kind, arrays: Mapping[int, Array]) -> _Trace:
        kept: list[Retracing] = []

        def compute(batch: dict[str, Any], weights: list[Any], state: list[Any], seed: Any) -> Any:
            mapping = [*zip(self._variables, weights, strict=True), *zip(self._state(kind), state, strict=True)]
            scope = StatelessScope(mapping, collect_losses=True, initialize_variables=False)
            retracing = Retracing(
                scope, self._variables, seed, evaluates=kind in ("eval", "layers", "inputs"), applies=kind == "own"
            )
            placeholders = {int(at): tensor for at, tensor in batch.items()}
            retracing.placeholders = placeholders
            kept.append(retracing)
            flat = [placeholders.get(at, value) for at, value in enumerate(self._flat)]
            args, kwargs = tf.nest.pack_sequence_as(self._structure, flat)
            tape = tf.GradientTape() if kind == "inputs" else None
            if tape is not None:
                tape.__enter__()
                for tensor in placeholders.values():
                    tape.watch(tensor)
            try:
                with scope, warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    retracing.run(self._function, args, kwargs)
            finally:
                if tape is not None:
                    tape.__exit__(None, None, None)
            return self._results(kind, retracing, scope, tape, placeholders)

        specs = {str(at): tf.TensorSpec(value.shape, value.dtype) for at, value in arrays.items()}
        try:
            concrete = tf.function(compute, autograph=False).get_concrete_function(
                specs,
                [tf.TensorSpec(weight.shape, weight.dtype) for weight in self.weights],
                [tf.TensorSpec(variable.shape, variable.dtype) for variable in self._state(kind)],
                tf.TensorSpec((), tf.int64),
            )
        except NotRepeatableError:
            raise
        except Exception as error:
            raise NotRepeatableError(f"the step cannot be traced again: {one_line(error)}") from error
        if refusal := refusal_of(concrete):
            raise NotRepeatableError(refusal)
        return _Trace(concrete, kept[-1], written_variables(concrete))

    def _state(self, kind: Kind) -> list[Any]:
        return list(self._optimizer.variables) if kind == "own" else []

    def _results(
        self, kind: Kind, retracing: Retracing, scope: Any, tape: Any, placeholders: Mapping[int, Any]
    ) -> dict[str, Any]:
        predictions = [tensor for call in reversed(retracing.calls) for tensor in call.returned if _is_float(tensor)]
        results: dict[str, Any] = {"loss": retracing.loss, "predictions": predictions}
        if kind == "train":
            results["gradients"] = _dense(retracing.gradients, self._variables)
            results["used"] = _dense(retracing.used or {}, self._variables)
        elif kind == "own":
            results["weights"] = [scope.get_current_value(variable) for variable in self._variables]
            results["state"] = [scope.get_current_value(variable) for variable in self._state(kind)]
        elif kind == "layers":
            results["outputs"] = [tensor for _, _, _, tensor in retracing.outputs if _is_float(tensor)]
        elif kind == "inputs" and predictions:
            chosen = [tensor for tensor in placeholders.values() if tensor.dtype.is_floating]
            random = tf.random.stateless_normal(tf.shape(predictions[0]), (3, 3), dtype=predictions[0].dtype)
            with tape:
                projected = tf.reduce_sum(predictions[0] * random)
            found = tape.gradient(projected, chosen)
            at_of = [at for at, tensor in placeholders.items() if tensor.dtype.is_floating]
            results["inputs"] = {
                str(at): gradient for at, gradient in zip(at_of, found, strict=True) if gradient is not None
            }
        return results

    def _run(
        self,
        kind: Kind,
        given: Mapping[int, Array],
        weights: Sequence[Array] | None = None,
        state: Sequence[Any] = (),
        seed: int | None = None,
    ) -> dict[str, Any]:
        trace = self._trace(kind, given)
        arrays = {**self._arrays, **given}
        saved = [tf.identity(variable) for variable in trace.written]
        try:
            found: dict[str, Any] = trace.concrete(
                {str(at): tf.constant(value) for at, value in arrays.items()},
                [tf.constant(weight) for weight in (self.weights if weights is None else weights)],
                list(state),
                tf.constant(0 if seed is None else (seed + 1) * _SEED_STEP, tf.int64),
            )
            return found
        finally:
            for variable, value in zip(trace.written, saved, strict=True):
                variable.assign(value)

    def compute_variant(self, variant: StepVariant, *, gradients: bool) -> Computed:
        kind: Kind = "eval" if variant.evaluates else "train"
        found = self._run(kind, variant.given, variant.weights, seed=variant.seed)
        wanted = _numpy(found["gradients"], len(self.weights)) if gradients else []
        return Computed(float(found["loss"]), [np.asarray(value) for value in found["predictions"]], wanted)

    def layers(self, given: Mapping[int, Array]) -> list[tuple[str, Array]]:
        trace = self._trace("layers", given).retracing
        names = [f"{path} ({kind})" for path, kind, _, tensor in trace.outputs if _is_float(tensor)]
        return list(zip(names, map(np.asarray, self._run("layers", given)["outputs"]), strict=True))

    def used_gradients(self) -> Sequence[Array | None] | None:
        if self._trace("train", {}).retracing.used is None:
            return None
        return _numpy(self._run("train", {})["used"], len(self.weights))

    def input_gradient(self, key: int) -> Array | None:
        found = self._run("inputs", {}).get("inputs", {}).get(str(key))
        return None if found is None else np.asarray(found)

    def own_optimizer(self) -> OwnOptimizer | None:
        if self._optimizer.gradient_accumulation_steps or self._trace("train", {}).retracing.used is None:
            return None
        return _Own(self)

    # --- what is of this framework --------------------------------------------------------------------------

    def why_mixed(self) -> str:
        return ""

    def keeps_samples(self, size: int) -> bool:
        return any(size in variable.shape for variable in self._trace("eval", {}).written)

    def why_padding_is_read(self) -> str:
        called = self._trace("eval", {}).retracing
        is_recurrent = any(isinstance(layer, keras.layers.RNN) for layer in called.called)
        has_mask = any(getattr(tensor, "_keras_mask", None) is not None for _, _, _, tensor in called.outputs)
        return READS_PADDING if is_recurrent and not has_mask else ""

    def test_modes(self) -> Tested:
        return test_modes(self._trace("train", {}).retracing, self._trace("eval", {}).retracing)

    def test_state(self) -> Tested:
        trace = self._trace("train", {})
        return test_state(trace.concrete, trace.retracing, trace.written, self._optimizer)

    def test_parts(self) -> Tested:
        if steps := self._optimizer.gradient_accumulation_steps:
            return not_applicable(f"Keras itself adds the gradients of {steps} batches, and divides them")
        return not_applicable("the step computes its gradients once; those of other calls are not seen")


class _Own:
    """See ``OwnOptimizer``."""

    def __init__(self, step: TracedStep) -> None:
        self._step = step
        self._weights: Sequence[Array] = step.weights
        self._state: list[Any] = [tf.constant(keras.ops.convert_to_numpy(v)) for v in step._state("own")]

    def advance(self, seed: int | None) -> tuple[float, Sequence[Array]]:
        found = self._step._run("own", {}, self._weights, self._state, seed)
        self._weights, self._state = [np.asarray(weight) for weight in found["weights"]], found["state"]
        return float(found["loss"]), self._weights


def _is_array(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fiub"
    return bool(isinstance(value, tf.Tensor) and hasattr(value, "numpy") and value.dtype.is_numpy_compatible)


def _is_float(tensor: Any) -> bool:
    return bool(isinstance(tensor, tf.Tensor) and tensor.dtype.is_floating)


def _dense(found: Mapping[int, Any], variables: Sequence[Any]) -> dict[str, Any]:
    """Return the gradients that there are by the positions of the variables, as tensors of float32."""
    given = {at: found.get(id(variable)) for at, variable in enumerate(variables)}
    return {
        str(at): tf.cast(tf.convert_to_tensor(gradient), tf.float32)
        for at, gradient in given.items()
        if gradient is not None
    }


def _numpy(found: Mapping[str, Any], count: int) -> list[Array | None]:
    return [np.asarray(found[str(at)]) if str(at) in found else None for at in range(count)]


def _named(python: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return dict(inspect.signature(python).bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        return {f"argument {at}": value for at, value in enumerate(args)} | dict(kwargs)


def _is_warming_up(optimizer: Any, rate: float) -> bool:
    """Whether a schedule of Keras raises the rate within the next thousand steps."""
    schedule = optimizer._learning_rate
    if not isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
        return False
    now = int(tf.convert_to_tensor(optimizer.iterations))
    return any(float(tf.convert_to_tensor(schedule(now + ahead))) > 2 * rate for ahead in (10, 100, 1000))
