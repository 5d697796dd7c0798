"""The TensorFlow adapter: functions, eager loops, and Keras on top of them."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops.iterator_ops import OwnedIterator
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.array_capture import CapturedArrays
from leadline.frameworks.capture_requests import ColumnSets, record_compilation
from leadline.frameworks.kit.batch_waits import BatchWaits
from leadline.frameworks.kit.named_tensor import GRADIENTS, NamedTensor, parameter_collections
from leadline.frameworks.kit.uncaptured import Uncaptured
from leadline.frameworks.patches import Patches
from leadline.frameworks.tensorflow import cluster
from leadline.frameworks.tensorflow.capture import Optimized, TensorFlowSubject
from leadline.frameworks.tensorflow.check.check_hooks import TensorFlowChecks
from leadline.frameworks.tensorflow.diagnose import coverage_gaps, inventory, layer_paths
from leadline.frameworks.tensorflow.handover import VariableHandover
from leadline.frameworks.tensorflow.keras_hooks import KerasHooks
from leadline.frameworks.tensorflow.manual_updates import VariableSteps, VariableUpdates
from leadline.frameworks.tensorflow.profiles import XlaRecording
from leadline.frameworks.tensorflow.replay import Replays
from leadline.frameworks.tensorflow.steps import LOSS, Steps
from leadline.frameworks.tensorflow.taps import EagerTaps
from leadline.frameworks.tensorflow.tracing import Tracing, is_eager
from leadline.frameworks.tensorflow.trained_modes import TrainedModes
from leadline.frameworks.tensorflow.uncaptured import CALLS, KERAS_2, REASONS
from leadline.frameworks.tensorflow.variable_names import model_of, name_of
from leadline.frameworks.training_description import TrainingDescription
from leadline.instrumentation.check import StepChecks
from leadline.instrumentation.guard import Facts, Guard
from leadline.instrumentation.recording import Recording
from leadline.records.doctor_report import Inventory, UncapturedEntry
from leadline.records.names import OPTIMIZER_VARIABLES, Family, gradient_name
from leadline.records.plan import CaptureItem, may_select_module_tensors
from leadline.records.profile_window import ProfileWindow


class TensorFlowAdapter:
    """See ``leadline.frameworks.adapter.Adapter``.

    Weights are read between the steps. Gradients, layers and losses of a captured step come from its replay: the step
    is computed once more, its effects are undone, and then the script's own function runs.

    Args:
        note: Takes a line about something that cannot be captured.
    """

    name = "tensorflow"
    family: Family = "network"

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._tracing = Tracing(Facts(note, lambda: 0).of("facts about loss calls are"))
        self._patches, self._uncaptured = Patches(), Uncaptured(REASONS, note)
        self._steps: Steps | None = None
        self._keras: KerasHooks | None = None
        self._prefixes: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._captured, self._blocks = CapturedArrays(note), ColumnSets()

    def version(self) -> str:
        keras = _keras_version()
        return f"{tf.__version__} (Keras {keras})" if keras else str(tf.__version__)

    def knows(self, thing: object) -> bool:
        return isinstance(thing, (Function, VariableUpdates, tf.Tensor, tf.Variable, tf.Module)) or _is_of_keras(thing)

    def captures_between_steps(self, item: CaptureItem) -> bool:
        return may_select_module_tensors(item)

    def describe(self) -> TrainingDescription:
        return {}

    def is_distributed(self) -> bool:
        return cluster.processes() > 1

    def captures_together(self) -> bool:
        return self.is_distributed()

    def rank(self) -> int | None:
        return cluster.rank()

    def steps_before(self, optimizer: Any) -> int | None:
        """Return the iterations of an optimizer of Keras."""
        iterations = getattr(getattr(optimizer, "inner_optimizer", optimizer), "iterations", None)
        return None if iterations is None else int(tf.convert_to_tensor(iterations))

    def takes_over(self, optimizer: Any) -> bool:
        return self._steps is not None and self._steps.takes_over(optimizer)

    def batch(self) -> list[NamedTensor]:
        return self._steps.given() if self._steps is not None else []

    def inventory(self, optimizers: Sequence[Any]) -> Inventory:
        return inventory([self._optimized(optimizer) for optimizer in optimizers])

    def coverage_gaps(self, optimizers: Sequence[Any], backwards: int) -> list[UncapturedEntry]:
        return coverage_gaps(self._tracing.refusals(), self._uncaptured.gaps, has_stepped=bool(optimizers))

    def end_training(self) -> bool:
        return self._steps is not None and self._steps.end_training()

    def open_operators(self, window: ProfileWindow, guard: Guard) -> Recording:
        return XlaRecording(window, guard, self._names)

    def _names(self) -> dict[str, Sequence[str]]:
        optimizers = [getattr(owner, "inner_optimizer", owner).name for owner in list(self._prefixes)]
        return {"layers": layer_paths(), "optimizers": optimizers}

    def register(self, model: object) -> None:
        """Do nothing: variables are found by the optimizers that update them."""

    def install(self, callbacks: StepCallbacks, guard: Guard) -> None:
        callbacks.timeline.facts.setdefault("device", _device())
        self._tracing.loss_facts = callbacks.facts.of("facts about loss calls are")
        replays = Replays(self._tracing, self._note, partial(record_compilation, callbacks))
        modes = TrainedModes(self._tracing, self._trained_by)
        steps = self._steps = Steps(
            callbacks, guard, self._tracing, replays, self._note, VariableHandover(self._trained_by), modes
        )
        self._patches.replace(Function, "__call__", lambda original: _make_call(original, steps))
        manual = VariableSteps(steps, guard)
        manual.install(self._patches)
        steps.before_optimizer = manual.forget
        self._patches.replace(
            tf.GradientTape, "gradient", lambda original: _make_gradient(original, steps, manual, guard)
        )
        waits = BatchWaits(callbacks.timeline, guard)
        self._patches.replace(OwnedIterator, "__next__", lambda original: _make_next(original, waits))
        self._keras = KerasHooks(steps, callbacks, guard)
        self._keras.install()
        self._uncaptured.install(guard, CALLS, [KERAS_2])

    def watch_checks(self, checks: StepChecks, guard: Guard) -> None:
        if self._steps is not None:
            self._steps.checks = TensorFlowChecks(checks)

    def uninstall(self) -> None:
        self._patches.restore()
        self._uncaptured.uninstall()
        if self._keras is not None:
            self._keras.uninstall()
        self._steps = self._keras = None

    def subject(self, optimizer: Any) -> TensorFlowSubject:
        assert self._steps is not None
        return TensorFlowSubject(optimizer, self._optimized, self._steps, self._note)

    def _trained_by(self, owner: Any) -> Iterable[Any]:
        """Return the variables that an owner of steps trains, as far as it knows them."""
        if isinstance(owner, Function):
            facts = self._tracing.facts_of(owner)
            return facts.variables.values() if facts is not None else ()
        if isinstance(owner, VariableUpdates):
            return owner.variables().values()
        inner = getattr(owner, "inner_optimizer", owner)
        return inner._trainable_variables if inner.built else ()

    def _optimized(self, owner: Any) -> Optimized:
        if isinstance(owner, Function):
            facts = self._tracing.facts_of(owner)
            trained = facts.variables.items() if facts is not None else ()
            parameters = [NamedTensor(name, parameter_collections(name), variable) for name, variable in trained]
            return Optimized(owner.name, "", owner.name, self._prefix(owner, owner.name), parameters, [], dict)
        if isinstance(owner, VariableUpdates):
            trained = owner.variables().items()
            parameters = [NamedTensor(name, parameter_collections(name), variable) for name, variable in trained]
            kind = type(owner).__name__
            return Optimized("variables", "by hand", kind, self._prefix(owner, kind), parameters, [], dict)
        phase = self._steps.phase if self._steps is not None else None
        inner = getattr(owner, "inner_optimizer", owner)
        given = self._steps.eager_variables if self._steps is not None else ()
        updated = inner._trainable_variables if inner.built else given
        names = [(name_of(variable), variable) for variable in updated]
        parameters = [NamedTensor(name, parameter_collections(name), variable) for name, variable in names]
        variables = [
            NamedTensor(name_of(variable), (OPTIMIZER_VARIABLES,), variable)
            for variable in owner.variables
            if len(variable.shape)
        ]
        prefix = self._prefix(owner, inner.name)
        named = model_of([name for name, _ in names]) or "variables"
        model = type(phase.model).__name__ if phase is not None else named
        return Optimized(
            model, type(inner).__name__, inner.name, prefix, parameters, variables, lambda: _settings(inner)
        )

    def _prefix(self, owner: Any, label: str) -> str:
        """Return the prefix of an owner's norms: none for the first one alive."""
        if owner not in self._prefixes:
            self._prefixes[owner] = f"{label}/" if "" in self._prefixes.values() else ""
        return self._prefixes[owner]

    def watch_forward(self, items: Sequence[CaptureItem]) -> None:
        if self._steps is not None and items:
            self._steps.forward_items = tuple(dict.fromkeys((*self._steps.forward_items, *items)))
            self._steps.eager_taps = self._steps.eager_taps or EagerTaps(())
            self._steps.eager_taps.items = self._steps.forward_items

    def end_forward(self) -> CapturedArrays | None:
        steps = self._steps
        if steps is None or not steps.forward_items:
            return None
        items, steps.forward_items = steps.forward_items, ()
        values = [value for value in steps.forward_values() if "layers" in value.info.collections]
        steps.eager_taps = None
        if not values:
            return None
        self._captured.begin(items, "train")
        self._blocks.keep(self._captured, items, values)
        self._captured.own_ns = steps.take_blocked_ns()
        return self._captured


def _make_call(original: Callable[..., Any], steps: Steps) -> Callable[..., Any]:
    call = steps.call

    def __call__(function: Any, *args: Any, **kwargs: Any) -> Any:
        return call(original, function, args, kwargs)

    return __call__


def _make_next(original: Callable[[Any], Any], waits: BatchWaits) -> Callable[[Any], Any]:
    timed = waits.make_next(original)

    def __next__(iterator: Any) -> Any:
        return timed(iterator) if is_eager() else original(iterator)

    return __next__


def _make_gradient(
    original: Callable[..., Any], steps: Steps, manual: VariableSteps, guard: Guard
) -> Callable[..., Any]:
    def gradient(tape: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_eager():
            result = original(tape, target, sources, *args, **kwargs)
        else:
            guard.run(manual.end)
            guard.run(steps.begin_backward, tape)
            result = original(tape, target, sources, *args, **kwargs)
            guard.run(steps.end_backward)
            guard.run(_expect_update, manual, sources, result)
        guard.call(steps.layers.call, _record_gradient, steps, target, sources, result)
        return result

    return gradient


def _expect_update(manual: VariableSteps, sources: Any, gradients: Any) -> None:
    pairs = zip(tf.nest.flatten(sources), tf.nest.flatten(gradients), strict=True)
    of_variables = [(source, gradient) for source, gradient in pairs if _is_variable(source)]
    manual.expect({name_of(source): (getattr(source, "_value", source), gradient) for source, gradient in of_variables})


def _record_gradient(steps: Steps, target: Any, sources: Any, gradients: Any) -> None:
    pairs = zip(tf.nest.flatten(sources), tf.nest.flatten(gradients), strict=True)
    of_variables = {name_of(source): (source, gradient) for source, gradient in pairs if _is_variable(source)}
    if not of_variables:
        return
    loss = steps.unscaled(next(iter(tf.nest.flatten(target)), None))
    if not is_eager():
        taps = steps.tracing.taps
        if taps is not None and loss is not None:
            taps.add_number(LOSS, "losses", tf.reduce_mean(loss))
        if taps is not None and not steps.applies_optimizer:
            grads = {name: gradient for name, (_, gradient) in of_variables.items() if gradient is not None}
            taps.add([NamedTensor(gradient_name(name), GRADIENTS, gradient) for name, gradient in grads.items()])
        steps.tracing.mark(variables={name: variable for name, (variable, _) in of_variables.items()}, loss=loss)
    elif tf.is_tensor(loss) and not loss.shape.rank:
        steps.record_loss(loss)


def _is_variable(source: Any) -> bool:
    return isinstance(source, tf.Variable) or (hasattr(source, "path") and hasattr(source, "value"))


def _is_of_keras(thing: object) -> bool:
    return any(kind.__module__.startswith("keras.") for kind in type(thing).__mro__)


def _keras_version() -> str:
    return str(getattr(sys.modules.get("keras"), "__version__", ""))


def _settings(optimizer: Any) -> dict[str, float]:
    rate = tf.convert_to_tensor(optimizer.learning_rate)
    return {f"{optimizer.name}/learning_rate": float(rate)}


def _device() -> str:
    return "gpu" if tf.config.list_physical_devices("GPU") else "cpu"
