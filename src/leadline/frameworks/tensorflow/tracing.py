"""The functions that are being called and traced, and what was learned of each while it was traced."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.saved_model.function_deserialization import RestoredFunction

from leadline.frameworks.keras.modes import LayerModes
from leadline.frameworks.tensorflow.taps import EagerTaps, Taps
from leadline.frameworks.traces import OfSameCode, Traces
from leadline.instrumentation.guard import Fact

is_eager: Callable[[], bool] = context.executing_eagerly
"""Return whether operations run at once; some 0.1 µs, a quarter of ``tf.executing_eagerly``."""


class TracedFunction:
    """What is known of a ``tf.function``.

    Attributes:
        trains: Whether it computes gradients of variables or applies an optimizer.
        variables: The variables of a training without an optimizer of Keras, by name.
        inner: The training function that it calls; the arguments of that one are its batches.
        loss_outputs: The positions of losses among its results.
        batches: How many batches it takes from an iterator; 0: not known, because it takes them in a loop.
        refusal: Why it cannot be replayed; empty: it can.
        traces: Its traces, and those of functions that it has replaced; None: not counted yet.
        traced: How often it had been traced when they were counted last.
        code: That of the script's function.
        modes: The modes of the layers that its traces have called.
        steps: The train steps that its calls have made.
        fitted_in: The number of the call of ``fit`` that it was called in last; -1: none.
        left_out: The check of what that call leaves out; empty: nothing.
    """

    def __init__(self) -> None:
        self.trains = False
        self.variables: dict[str, Any] = {}
        self.inner: weakref.ref[Any] | None = None
        self.loss_outputs: tuple[int, ...] = ()
        self.batches = 0
        self.refusal = ""
        self.traces: Traces | None = None
        self.traced = 0
        self.code: Any = None
        self.modes = LayerModes()
        self.steps = 0
        self.fitted_in = -1
        self.left_out: dict[str, float] = {}
        self.losses: list[Any] = []
        """Symbolic losses, while it is traced."""
        self._optimizers: list[weakref.ref[Any]] = []

    @property
    def optimizers(self) -> list[Any]:
        """The optimizers that it applies."""
        return [optimizer for ref in self._optimizers if (optimizer := ref()) is not None]

    def add_optimizer(self, optimizer: Any) -> None:
        """Add an optimizer that it applies; not one that another one wraps."""
        known = self.optimizers
        if any(other is optimizer or getattr(other, "inner_optimizer", None) is optimizer for other in known):
            return
        self._optimizers.append(weakref.ref(optimizer))

    def include(self, other: TracedFunction) -> None:
        """Add what a function does that this one calls."""
        self.trains = self.trains or other.trains
        self.variables |= other.variables
        for optimizer in other.optimizers:
            self.add_optimizer(optimizer)


class Variant:
    """A function that is traced again with taps; the functions that it calls are replaced by variants of their own."""

    def __init__(self, function: Any, taps: Taps) -> None:
        self.taps = taps
        self._clones: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self.function = self.clone_of(function)

    def clone_of(self, function: Any) -> Any:
        """Return the variant of a function."""
        if function not in self._clones:
            self._clones[function] = function._clone(None)
        return self._clones[function]


class Tracing:
    """The function that the script is calling, and the functions that are traced within that call.

    Replicas are traced in threads of their own, so that the state is that of the process and not of the thread.

    Attributes:
        taps: The taps of the variant that is traced, or of the current eager step; None: nothing is tapped.
        loss_facts: Runs what finds facts about loss calls.
    """

    def __init__(self, loss_facts: Fact) -> None:
        self.loss_facts = loss_facts
        self.taps: Taps | EagerTaps | None = None
        self._stack: list[Any] = []
        self._variant: Variant | None = None
        self._is_learning = False
        self._facts: weakref.WeakKeyDictionary[Any, TracedFunction] = weakref.WeakKeyDictionary()
        self._replaced: OfSameCode[Traces] = OfSameCode()

    @property
    def is_active(self) -> bool:
        """Whether the script is calling a function."""
        return bool(self._stack)

    @property
    def is_tracing_variant(self) -> bool:
        """Whether a function is traced again with taps."""
        return self._variant is not None and not self._is_learning

    def learning(self) -> Iterator[TracedFunction]:
        """Yield what is known of the functions of the script that are traced now, which learn from what they call."""
        if not self.is_tracing_variant and not is_eager():
            for function in self._stack:
                yield self._facts.setdefault(function, TracedFunction())

    def refusals(self) -> dict[str, str]:
        """Return why functions cannot be replayed, by their names."""
        known = list(self._facts.items())
        return {str(function.name): facts.refusal for function, facts in known if facts.refusal}

    def facts_of(self, function: Any) -> TracedFunction | None:
        """Return what is known of a function; None if it was never called."""
        return self._facts.get(function)

    def count_traces(self, function: Any, facts: TracedFunction) -> Traces:
        """Count the call of a function that begins, and the traces before it."""
        if facts.traces is None:
            code, name = getattr(function.python_function, "__code__", None), str(function.name)
            facts.code, facts.traces = code, self._replaced.replaced_by(code, name) or Traces()
            self._replaced.keep(function, code, name, facts.traces)
        traced = function.experimental_get_tracing_count()
        if traced != facts.traced:
            facts.traced = traced
            facts.traces.note_trace()
        facts.traces.calls += 1
        return facts.traces

    def learn(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> TracedFunction:
        """Trace a function ahead of its first call, as that call would, to learn whether it trains.

        A function that was traced before Leadline was attached is traced once more for this.
        """
        facts = self._facts[function] = TracedFunction()
        is_traced = function.experimental_get_tracing_count() > 0
        before = (function._created_variables, function._variable_creation_config)
        self._variant = Variant(function, Taps((), self.loss_facts)) if is_traced else None
        self._is_learning = True
        self._stack.append(function)
        try:
            traced = self._variant.function if self._variant is not None else function
            concrete = traced._get_concrete_function_garbage_collected(*args, **kwargs)
            facts.batches = sum(operation.type == "IteratorGetNext" for operation in concrete.graph.get_operations())
            facts.loss_outputs = _positions_of_losses(concrete, facts.losses)
            if isinstance(function, RestoredFunction) and any(map(_updates_variable, nodes_of(concrete))):
                facts.refusal = "restored from a SavedModel, it computes no gradients in Python; rebuild the model"
        except Exception:  # noqa: BLE001 - the script's own call raises it again
            function._created_variables, function._variable_creation_config = before
        finally:
            self._stack.pop()
            self._variant, self._is_learning = None, False
            facts.losses = []
        return facts

    def call(self, original: Callable[..., Any], function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call the script's function as the outermost one."""
        self._stack.append(function)
        try:
            return original(function, *args, **kwargs)
        finally:
            self._stack.pop()

    def call_within(self, function: Any, substitute: Callable[[], Any]) -> Any:
        """Call something in the place of the script's function."""
        self._stack.append(function)
        try:
            return substitute()
        finally:
            self._stack.pop()

    def call_nested(
        self, original: Callable[..., Any], function: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        """Call a function within another one."""
        if is_eager():
            return original(function, *args, **kwargs)
        traced = self._variant.clone_of(function) if self._variant is not None else function
        if self.is_tracing_variant:
            return original(traced, *args, **kwargs)
        facts = self._facts.setdefault(function, TracedFunction())
        self._stack.append(function)
        try:
            return original(traced, *args, **kwargs)
        finally:
            self._stack.pop()
            if facts.trains and self._stack:
                outer = self._facts.setdefault(self._stack[-1], TracedFunction())
                outer.include(facts)
                outer.inner = weakref.ref(function)

    def trace_variant(self, variant: Variant, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Return the traced variant for some arguments."""
        return self._within(variant, variant.function._get_concrete_function_garbage_collected, args, kwargs)

    def run_variant(self, variant: Variant, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Run the variant."""
        self._within(variant, variant.function, args, kwargs)

    def _within(
        self, variant: Variant, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        self._stack.append(variant.function)
        self._variant, self.taps = variant, variant.taps
        try:
            return function(*args, **kwargs)
        finally:
            self._variant = self.taps = None
            self._stack.pop()

    def mark(self, *, optimizer: Any = None, variables: dict[str, Any] | None = None, loss: Any = None) -> None:
        """Note that the function that is traced trains."""
        if not self._stack or self.is_tracing_variant:
            return
        facts = self._facts.setdefault(self._stack[-1], TracedFunction())
        facts.trains = True
        if optimizer is not None:
            facts.add_optimizer(optimizer)
        facts.variables |= variables or {}
        if loss is not None:
            facts.losses.append(loss)


def nodes_of(concrete: Any) -> Iterator[Any]:
    """Yield the operations of a traced function, and of those that it calls."""
    definition = concrete.graph.as_graph_def()
    yield from definition.node
    for function in definition.library.function:
        yield from function.node_def


def _updates_variable(node: Any) -> bool:
    return str(node.op).startswith(("Assign", "ResourceApply"))


def _positions_of_losses(concrete: Any, losses: Sequence[Any]) -> tuple[int, ...]:
    """Return the positions of losses among the results of a traced function."""
    wanted = {id(loss) for loss in losses}
    results = enumerate(tf.nest.flatten(concrete.structured_outputs))
    return tuple(at for at, result in results if wanted & set(map(id, _origins(result))))


def _origins(result: Any) -> Iterator[Any]:
    """Yield the tensors that a result of a function is a copy of."""
    operation = getattr(result, "op", None)
    while operation is not None and operation.type == "Identity":
        yield operation.inputs[0]
        operation = operation.inputs[0].op
