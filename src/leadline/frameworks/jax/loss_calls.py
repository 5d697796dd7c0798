"""What a traced program shows of its loss calls: the way back to the last layer, and what becomes of the loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from leadline.frameworks.jax.program_graph import Node, ProgramGraph
from leadline.frameworks.jax.tap import GivenToLoss, Tap, tap_p
from leadline.frameworks.kit.loss_facts import MAX_CALLS, traced_facts, unused_name
from leadline.frameworks.kit.loss_trace import LossTrace, Operator
from leadline.records import loss_facts as facts
from leadline.records.loss_facts import Activation, LossKind

_ARITHMETIC: Final = ("add", "add_any", "div", "mul", "sub")
_LAYER: Final = "layer"
_OPERATORS: Final[dict[str, Activation | Operator]] = {
    "exp": Activation.EXP,
    "log_sigmoid": Activation.LOG_SIGMOID,
    "log_softmax": Activation.LOG_SOFTMAX,
    "logistic": Activation.SIGMOID,
    "relu": Activation.RELU,
    "sigmoid": Activation.SIGMOID,
    "softmax": Activation.SOFTMAX,
    "softplus": Activation.SOFTPLUS,
    "tanh": Activation.TANH,
    **dict.fromkeys(("celu", "elu", "gelu", "hard_tanh", "leaky_relu", "relu6", "selu", "silu"), Activation.OTHER),
    "dropout": Operator.DROPOUT,
    **dict.fromkeys(("neg", *_ARITHMETIC), Operator.RESCALING),
    **dict.fromkeys((_LAYER, "conv_general_dilated", "dot_general"), Operator.LAYER),
}
_LOGARITHMS: Final = {"softmax": "log_softmax", "sigmoid": "log_sigmoid", "logistic": "log_sigmoid"}
_CONVOLUTIONS: Final = ("conv", "conv1d", "conv2d", "conv3d", "convtranspose")
_NORMALIZATIONS: Final = ("batchnorm", "groupnorm", "layernorm", "rmsnorm")
_PRODUCTS: Final = ("dense", "densegeneral", "einsum", "linear", "lineargeneral")
_LAYERS: Final = frozenset(f"{kind}_output" for kind in (*_CONVOLUTIONS, *_NORMALIZATIONS, *_PRODUCTS))
"""Collections of layers of Flax and Equinox that end the way."""
_DROPOUT: Final = "dropout_output"


class TracedLossCall(NamedTuple):
    """A loss call in a traced program.

    Attributes:
        name: That of its facts.
        known: The facts that the program shows.
    """

    tap: Tap
    given: GivenToLoss
    name: str
    activation: Activation
    known: tuple[tuple[str, float], ...]


def loss_calls_in(jaxpr: Any) -> tuple[TracedLossCall, ...]:
    """Return the loss calls of a traced program."""
    graph = ProgramGraph(jaxpr)
    negated, names = _only_loss_is_negated(graph), set[str]()
    calls: list[TracedLossCall] = []
    for node, equation in graph.equations(tap_p):
        tap = equation.params["tap"]
        if tap.kind != "loss_call" or len(calls) >= MAX_CALLS or any(call.tap == tap for call in calls):
            continue
        reader = _Reader(graph)
        trace = LossTrace(_OPERATORS).follow(node, reader.read)
        name = unused_name(tap.name, names)
        names.add(name)
        known = _known(tap.given, trace, equation.invars[0].aval.shape, reader.softmaxes)
        if negated is not None:
            known[facts.IS_NEGATED] = float(negated == tap.group)
        calls.append(TracedLossCall(tap, tap.given, name, trace.activation, tuple(known.items())))
    return tuple(calls)


def _known(
    given: GivenToLoss, trace: LossTrace, shape: Sequence[int], softmaxes: Sequence[tuple[int, Sequence[int]]]
) -> dict[str, float]:
    axis = given.axis if given.axis is not None and -given.axis <= len(shape) else None
    known = {**traced_facts(given.kind, trace), facts.IS_BROADCAST: float(given.is_outer)}
    if axis is not None or not shape:
        known[facts.CLASSES] = float(shape[axis] if axis is not None and len(shape) > 1 else 1)
    if given.has_numbers:
        known[facts.LABEL_REPEATS] = float(given.repeats)
    if given.is_swapped is not None:
        known[facts.IS_SWAPPED] = float(given.is_swapped)
    taken = [*softmaxes, (axis, shape)] if given.kind is LossKind.CROSS_ENTROPY and axis is not None else softmaxes
    if taken:
        known[facts.SOFTMAX_SIZE] = float(min(sizes[at] for at, sizes in taken))
        known[facts.IS_SOFTMAX_OVER_BATCH] = float(any(len(sizes) > 1 and at == -len(sizes) for at, sizes in taken))
    return known


class _Reader:
    """Reads the operators on the way back from what a loss is given.

    Attributes:
        softmaxes: The axis and the shape of each softmax on the way.
    """

    def __init__(self, graph: ProgramGraph) -> None:
        self._graph = graph
        self.softmaxes: list[tuple[int, Sequence[int]]] = []

    def read(self, node: Node) -> tuple[str, Sequence[Node]]:
        """Return the kind of operator that computes a value, and the values that it is given."""
        for at, equation in self._graph.back_from(node):
            name = equation.primitive.name
            if equation.primitive is tap_p:
                found = self._read_tap(at, equation)
                if found is not None:
                    return found
            elif name in _ARITHMETIC:
                return self._read_arithmetic(at, equation)
            elif name == "log":
                kind, inputs = self.read(at.of(equation.invars[0]))
                return _LOGARITHMS.get(kind, "log"), inputs
            elif name in ("max", "min"):
                return self._read_bound(at, equation)
            else:
                return name, [at.of(variable) for variable in equation.invars]
        return "input", []

    def _read_tap(self, node: Node, equation: Any) -> tuple[str, Sequence[Node]] | None:
        """Return what a tap shows; None: nothing."""
        tap = equation.params["tap"]
        if tap.kind == "activation" and node.variable is equation.outvars[0]:
            if tap.name in ("softmax", "log_softmax") and tap.axis is not None:
                self.softmaxes.append((tap.axis, equation.invars[0].aval.shape))
            return tap.name, [node.of(equation.invars[1])]
        if tap.kind == "layer" and not _LAYERS.isdisjoint(tap.collections):
            return _LAYER, []
        if tap.kind == "layer" and _DROPOUT in tap.collections:
            before = next(self._graph.taps_of(node, tap.name.replace("_output_", "_input_")), None)
            if before is not None and before.invars[0] is not equation.invars[0]:
                return "dropout", [node.of(before.invars[0])]
        return None

    def _read_arithmetic(self, node: Node, equation: Any) -> tuple[str, Sequence[Node]]:
        data = [given for given in map(node.of, equation.invars) if not self._graph.is_fixed(given)]
        name = equation.primitive.name
        if len(data) != 1:
            return name, []
        if name == "add" and self._graph.primitive_of(data[0]) in ("dot_general", "conv_general_dilated"):
            return _LAYER, []  # with its bias
        return name, data

    def _read_bound(self, node: Node, equation: Any) -> tuple[str, Sequence[Node]]:
        """Return what a maximum or minimum means: a ReLU, or a bound that keeps the values within."""
        name = equation.primitive.name
        data = [given for given in map(node.of, equation.invars) if not self._graph.is_fixed(given)]
        if len(data) != 1:
            return name, []
        bounds = [self._graph.number_of(given) for given in map(node.of, equation.invars)]
        return ("relu", data) if name == "max" and 0 in bounds else self.read(data[0])


def _only_loss_is_negated(graph: ProgramGraph) -> int | None:
    """Return the group of the loss call whose negative is minimized, -1 if there is none; None: it is not known.

    It is known of a program that computes the gradients of one loss, and updates what it was computed for.
    """
    taps = [(node, equation.params["tap"]) for node, equation in graph.equations(tap_p)]
    losses = {tap: node for node, tap in taps if tap.kind == "loss"}
    if len(losses) != 1 or not any(tap.kind == "used_gradient" for _, tap in taps):
        return None
    (loss,) = losses.values()
    sign = 1.0
    for node, equation in _reductions(graph, loss):
        if equation.primitive is tap_p and equation.params["tap"].kind == "loss_result":
            return int(equation.params["tap"].group) if sign < 0 else -1
        if equation.primitive.name == "neg":
            sign = -sign
        elif equation.primitive.name in ("div", "mul"):
            numbers = [graph.number_of(node.of(variable)) for variable in equation.invars]
            sign *= next(number for number in numbers if number is not None)
    return -1


def _reductions(graph: ProgramGraph, node: Node) -> Iterator[tuple[Node, Any]]:
    """Yield the equations that make a loss of what a loss call returns, as far as each has one input but numbers."""
    ends = False
    while not ends:
        ends = True
        for at, equation in graph.back_from(node):
            name = equation.primitive.name
            if equation.primitive is tap_p:
                yield at, equation
                continue
            data = [given for given in map(at.of, equation.invars) if graph.number_of(given) is None]
            is_divisor = name == "div" and graph.number_of(at.of(equation.invars[1])) is None
            if name in ("div", "mul", "neg", "reduce_sum") and len(data) == 1 and not is_divisor:
                yield at, equation
                node, ends = data[0], False
            break
