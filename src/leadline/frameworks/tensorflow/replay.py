"""Replay: a training step is computed once more with taps, its effects are undone, then the script's own one runs."""

from __future__ import annotations

import re
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import tensorflow as tf
from tensorflow.python.data.ops.iterator_ops import OwnedIterator
from tensorflow.python.framework import op_def_registry
from tensorflow.python.framework.auto_control_deps_utils import get_read_only_resource_input_indices_graph
from tensorflow.python.ops import gen_dataset_ops

from leadline.frameworks.capture_requests import CapturedTensor
from leadline.frameworks.kit.loss_facts import NO_FACTS
from leadline.frameworks.tensorflow.taps import Taps
from leadline.frameworks.tensorflow.tracing import TracedFunction, Tracing, Variant, nodes_of
from leadline.frameworks.traces import RETRACED, Traces
from leadline.records.plan import CaptureItem
from leadline.store import layout

_REPEATABLE: Final = re.compile(
    "(Assert|Case|If|While|NoOp|Placeholder|StatelessCase|StatelessIf|StatelessWhile|XlaLaunch|.*PartitionedCall"
    "|(Read|Assign|AssignAdd|AssignSub)VariableOp|VarHandleOp|VarIsInitializedOp|VariableShape|IsVariableInitialized"
    "|Resource(Apply|SparseApply|Scatter|Gather|StridedSliceAssign).*|LookupTable(Find|Size)V2"
    "|IteratorGetNext|CollectiveReduce.*|NcclAllReduce"
    "|Random.*|TruncatedNormal|ParameterizedTruncatedNormal|Multinomial|StatefulUniform.*|StatefulStandardNormalV2"
    "|StatefulTruncatedNormal|StatefulRandomBinomial|Rng(ReadAnd)?Skip)"
)
"""Stateful operations whose effects are undone with the variables, or which keep their state for themselves."""


class Target(NamedTuple):
    """A function to replay, with its arguments."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(slots=True)
class StepCall:
    """A call of a function that trains.

    Attributes:
        args: Its arguments; an iterator is replaced by one that yields the same batches when these had to be read.
        begun_ns: When it began, by the clock of the timeline, after what was captured before it.
        batches: The number of batches that it trains with.
        iterations: What the optimizer has counted before it.
        replayed: What was captured of it; None: it was not replayed.
        substitute: Computes its result in its place, with the batch that was read already; None: it is called itself.
        is_exhausted: Whether there is no batch left: the call will end without a step.
    """

    function: Any
    facts: TracedFunction
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    begun_ns: int = 0
    batches: int = 1
    iterations: int = 0
    replayed: list[CapturedTensor] | None = None
    substitute: Callable[[], Any] | None = None
    is_exhausted: bool = False
    target: list[Target | None] = field(default_factory=list)
    """The function to replay, once it is known."""
    traces: Traces = field(default_factory=Traces)


class _Prepared(NamedTuple):
    """A function that was traced again, and the variables to restore."""

    target: Target
    variant: Variant
    variables: list[Any]
    is_new: bool
    """Whether it was traced for this call."""


class Replays:
    """Replays of the calls of all functions.

    **Same bits** - every variable that the function may write is restored before the script's own call, also if the
    replay fails; the script's own function is never replaced. The update of an optimizer of Keras is left out.

    Args:
        note: Takes a line about something that cannot be captured.
        on_trace: Called with the time that another trace of a function, or its first run, took, and with the processor
            time of that, in nanoseconds.
    """

    def __init__(self, tracing: Tracing, note: Callable[[str], None], on_trace: Callable[[int, int], None]) -> None:
        self._tracing, self._note, self._on_trace = tracing, note, on_trace
        self._variants: weakref.WeakKeyDictionary[Any, Variant] = weakref.WeakKeyDictionary()
        self._elsewhere_ns = 0
        self._prepared: tuple[StepCall, _Prepared | None] | None = None

    def take_blocked_ns(self) -> int:
        """Return the time that replays have taken in other threads since the last call."""
        taken, self._elsewhere_ns = self._elsewhere_ns, 0
        return taken

    def release(self) -> None:
        """Release the batch of the last call."""
        self._prepared = None

    def prepare(self, call: StepCall, items: Sequence[CaptureItem]) -> None:
        """Trace again what ``run`` will need."""
        if call.replayed is None:
            self._prepare(call, items)

    def run(self, call: StepCall, items: Sequence[CaptureItem]) -> list[CapturedTensor]:
        """Return what ``items`` select in a call, which is replayed for that at most once."""
        if call.replayed is None:
            call.replayed = []
            prepared = self._prepare(call, items)
            if prepared is not None:
                begun, begun_cpu = time.perf_counter_ns(), time.thread_time_ns()
                with tf.profiler.experimental.Trace(layout.OVERHEAD_ANNOTATION):
                    self._run_and_restore(call, prepared)
                took, took_cpu = time.perf_counter_ns() - begun, time.thread_time_ns() - begun_cpu
                if prepared.is_new:  # XLA has compiled it
                    self._on_trace(took, took_cpu)
                else:
                    self._elsewhere_ns += took - took_cpu
        return call.replayed

    def loss_facts(self, call: StepCall) -> dict[str, float]:
        """Return the facts about the loss calls of a call that was replayed."""
        prepared = self._prepared[1] if self._prepared is not None and self._prepared[0] is call else None
        if prepared is None:
            return NO_FACTS
        return self._tracing.loss_facts.call(prepared.variant.taps.loss_facts) or NO_FACTS

    def _prepare(self, call: StepCall, items: Sequence[CaptureItem]) -> _Prepared | None:
        if self._prepared is not None and self._prepared[0] is call:
            known = self._prepared[1]
            if known is None or set(items) <= set(known.variant.taps.items):
                return known
            target: Target | None = known.target
        else:
            if call.traces.are_repeated and not call.facts.refusal:
                self._note(f"gradients and activations of {call.function.name} are not captured: {RETRACED}")
            target = None if call.facts.refusal or call.traces.are_repeated else self.target(call)
        prepared = self._trace(call, target, items) if target is not None else None
        self._prepared = (call, prepared)
        return prepared

    def _trace(self, call: StepCall, target: Target, items: Sequence[CaptureItem]) -> _Prepared | None:
        variant = self._variant(target.function, items)
        begun, begun_cpu = time.perf_counter_ns(), time.thread_time_ns()
        traces = variant.function.experimental_get_tracing_count()
        concrete = self._tracing.trace_variant(variant, target.args, target.kwargs)
        variant.taps.end_trace()
        is_new = variant.function.experimental_get_tracing_count() != traces
        if is_new:
            call.facts.refusal = refusal_of(concrete)
            self._on_trace(time.perf_counter_ns() - begun, time.thread_time_ns() - begun_cpu)
        if call.facts.refusal:
            self._note(f"gradients and activations are not captured: {call.facts.refusal}")
            return None
        ours = variant.taps.variables()
        variables = [variable for variable in written_variables(concrete) if id(variable) not in ours]
        return _Prepared(target, variant, variables, is_new)

    def _run_and_restore(self, call: StepCall, prepared: _Prepared) -> None:
        variant, target = prepared.variant, prepared.target
        variant.taps.clear()
        saved = [tf.identity(variable) for variable in prepared.variables]
        try:
            self._tracing.run_variant(variant, target.args, target.kwargs)
            call.replayed = variant.taps.values()
        except tf.errors.OpError as error:
            self._note(f"a step was not captured: {type(error).__name__} in its replay")
        finally:
            for variable, value in zip(prepared.variables, saved, strict=True):
                variable.assign(value)

    def _variant(self, function: Any, items: Sequence[CaptureItem]) -> Variant:
        """Return a variant that captures these items, and those that were captured before."""
        known = self._variants.get(function)
        if known is not None and set(items) <= set(known.taps.items):
            return known
        before = known.taps.items if known is not None else ()
        variant = self._variants[function] = Variant(
            function, Taps(tuple(dict.fromkeys((*before, *items))), self._tracing.loss_facts)
        )
        return variant

    def target(self, call: StepCall) -> Target | None:
        """Return the function to replay with its arguments; None: the call says why it cannot be replayed."""
        if not call.target:
            call.target.append(self._target(call))
        return call.target[0]

    def _target(self, call: StepCall) -> Target | None:
        """Return the function to replay with its arguments: where the script passes an iterator, that of one batch."""
        if not any(map(_is_iterator, _leaves(call))):
            return Target(call.function, call.args, call.kwargs)
        inner = call.facts.inner() if call.facts.inner is not None else None
        batches = call.batches if inner is not None else call.facts.batches
        if len(call.args) != 1 or call.kwargs or not batches:
            call.facts.refusal = "the function takes its batches from an iterator, in a loop or beside other arguments"
            self._note(f"gradients and activations are not captured: {call.facts.refusal}")
            return None
        iterator = call.args[0]
        if not isinstance(iterator, OwnedIterator):
            return self._distributed_target(call, inner, iterator)
        # must precede taking a batch: nothing may fail after that
        copies = [empty_iterator(iterator) for _ in range(1 if inner is not None else 2)]
        taken = list(take(iterator, batches))
        if not taken:
            call.is_exhausted = True
            return None
        try:
            fill(copies, taken)
        except (TypeError, ValueError, tf.errors.OpError) as error:
            if inner is None:
                raise
            call.facts.refusal = f"its batches cannot be yielded once more ({type(error).__name__})"
            self._note(f"gradients and activations are not captured: {call.facts.refusal}")
            call.substitute = _calls(inner, list(map(_converted, taken)))
            return None
        call.args = (copies[0],)
        if inner is None:
            return Target(call.function, (copies[1],), {})
        return Target(inner, (_converted(taken[0]),), {})

    def _distributed_target(self, call: StepCall, inner: Any, iterator: Any) -> Target | None:
        """Return the function to replay where each batch is divided among replicas.

        No iterator that yields the batches once more can be made: the script's function of one batch is called for each
        instead of its caller, which would do nothing but that.
        """
        if inner is None:
            call.facts.refusal = "the function divides its batches among replicas itself"
            self._note(f"gradients and activations are not captured: {call.facts.refusal}")
            return None
        taken = [_converted(data) for data in _take_divided(iterator, call.batches)]
        if not taken:
            call.is_exhausted = True
            return None
        call.substitute = _calls(inner, taken)
        return Target(inner, (taken[0],), {})


def _leaves(call: StepCall) -> list[Any]:
    return [leaf for value in (*call.args, *call.kwargs.values()) for leaf in _flat(value)]


def _flat(value: Any) -> list[Any]:
    return list(tf.nest.flatten(value)) if not _is_iterator(value) else [value]


def _is_iterator(value: Any) -> bool:
    return isinstance(value, (tf.data.Iterator, tf.distribute.DistributedIterator))


def _converted(data: Any) -> Any:
    """Return a batch as Keras hands it to the function of one batch."""
    return tf.nest.map_structure(lambda part: None if isinstance(part, tf.experimental.Optional) else part, data)


def _calls(function: Any, batches: Sequence[Any]) -> Callable[[], Any]:
    """Return a call of the function of one batch for each batch, with the result of the loop of Keras around it."""

    def call() -> Any:
        results = [function(data) for data in batches]
        return tf.experimental.Optional.from_value(results[-1])

    return call


def take(iterator: Any, count: int) -> Iterator[Any]:
    """Yield the next elements of an iterator, as far as there are any."""
    for _ in range(count):
        try:
            yield iterator.get_next()
        except tf.errors.OutOfRangeError:
            return


def empty_iterator(like: Any) -> Any:
    """Return an iterator of the same type as another one, so that no function is traced again."""
    resource = gen_dataset_ops.anonymous_iterator_v3(
        output_types=like._flat_output_types, output_shapes=like._flat_output_shapes
    )
    return OwnedIterator(components=[resource], element_spec=like.element_spec)


def fill(iterators: Sequence[Any], elements: Sequence[Any]) -> None:
    """Let empty iterators yield some elements."""
    datasets = [tf.data.Dataset.from_tensors(element) for element in elements]
    dataset = datasets[0]
    for following in datasets[1:]:
        dataset = dataset.concatenate(following)
    for iterator in iterators:
        gen_dataset_ops.make_iterator(dataset._variant_tensor, iterator._iterator_resource)


def written_variables(concrete: Any) -> list[Any]:
    """Return the variables that a traced function may write, in branches and functions that it calls as well."""
    graph = concrete.graph
    read_only = {id(graph.inputs[at]) for at in get_read_only_resource_input_indices_graph(graph)}
    read = {id(outer) for outer, inner in graph.captures if id(inner) in read_only}
    return [variable for variable in concrete.variables if not {id(part) for part in _handles(variable)} <= read]


def _handles(variable: Any) -> list[Any]:
    """Return the handles of a variable: of one for each replica, if it is distributed."""
    return [part.handle for part in getattr(variable, "values", (variable,))]


def refusal_of(concrete: Any) -> str:
    """Return why a traced function must not run twice; empty: it may."""
    for node in nodes_of(concrete):
        if _is_stateful(node.op) and not _REPEATABLE.fullmatch(node.op):
            return f"the function contains {node.op}, whose effects cannot be undone"
    return ""


def _is_stateful(operation: str) -> bool:
    definition = op_def_registry.get(operation)
    return definition is not None and bool(definition.is_stateful)


def _take_divided(iterator: Any, count: int) -> Iterator[Any]:
    for _ in range(count):
        optional = iterator.get_next_as_optional()
        if not optional.has_value():
            return
        yield optional.get_value()
