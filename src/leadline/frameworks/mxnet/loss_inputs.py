"""Facts about what the losses of Gluon are given, as named in ``leadline.records.loss_facts``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from mxnet import autograd
from mxnet.base import MXNetError
from mxnet.gluon import loss as gluon_loss

from leadline.frameworks.kit.array_verbs import ArrayVerbs
from leadline.frameworks.kit.loss_facts import (
    MAX_CALLS,
    NO_FACTS,
    label_facts,
    probability_facts,
    traced_facts,
    unused_name,
)
from leadline.frameworks.kit.loss_trace import LossTrace, Operator
from leadline.frameworks.mxnet.arrays import Array, arrays_in, read
from leadline.records import loss_facts as facts
from leadline.records.loss_facts import Activation, LossKind

_VERBS: Final = ArrayVerbs()
_REGRESSION: Final = {
    gluon_loss.L2Loss: LossKind.SQUARED_ERROR,
    gluon_loss.L1Loss: LossKind.ABSOLUTE_ERROR,
    gluon_loss.HuberLoss: LossKind.SMOOTH_ABSOLUTE_ERROR,
}
_OPERATORS: Final[dict[str, Activation | Operator]] = {
    "exp": Activation.EXP,
    "leakyrelu": Activation.OTHER,
    "log_softmax": Activation.LOG_SOFTMAX,
    "relu": Activation.RELU,
    "sigmoid": Activation.SIGMOID,
    "softmax": Activation.SOFTMAX,
    "softmaxactivation": Activation.SOFTMAX,
    "softrelu": Activation.SOFTPLUS,
    "softsign": Activation.OTHER,
    "tanh": Activation.TANH,
    "dropout": Operator.DROPOUT,
    **dict.fromkeys(("batch_dot", "batchnorm", "convolution", "deconvolution", "dot"), Operator.LAYER),
    **dict.fromkeys(("embedding", "fullyconnected", "layernorm", "rnn"), Operator.LAYER),
    **dict.fromkeys(("_copy", "amp_cast", "cast", "expand_dims", "flatten", "identity"), Operator.SAME),
    **dict.fromkeys(("reshape", "slice", "slice_axis", "squeeze"), Operator.SAME),
    **dict.fromkeys(
        ("_div_scalar", "_minus_scalar", "_mul_scalar", "_plus_scalar", "_rminus_scalar"), Operator.RESCALING
    ),
}
_SOFTMAX: Final = frozenset({"log_softmax", "softmax"})
_CALL: Final = "_cachedop"
"""The call of a hybridized block."""
_PREFIXES: Final = ("_npx_", "_npi_", "_np_")
"""Of operators with the interface of numpy."""


def kind_of_loss(loss: Any) -> LossKind | None:
    """Return what a loss block computes; None: it is not known here."""
    if isinstance(loss, gluon_loss.SoftmaxCrossEntropyLoss):
        return LossKind.NLL if loss._from_logits else LossKind.CROSS_ENTROPY
    if isinstance(loss, gluon_loss.SigmoidBinaryCrossEntropyLoss):
        return LossKind.BINARY_CROSS_ENTROPY if loss._from_sigmoid else LossKind.BINARY_CROSS_ENTROPY_WITH_LOGITS
    if isinstance(loss, gluon_loss.KLDivLoss):
        return LossKind.KL_DIV if loss._from_logits else None
    return next((kind for block, kind in _REGRESSION.items() if isinstance(loss, block)), None)


class GluonLossFacts:
    """The facts about the loss calls of a step.

    Args:
        graph_of_call: Returns the graph of the only hybridized block that was called; None if there are several.
    """

    def __init__(self, graph_of_call: Callable[[], Any | None]) -> None:
        self._graph_of_call = graph_of_call
        self._found: dict[str, float] = {}
        self._names: set[str] = set()

    def add(self, loss: Any, inputs: Sequence[Any]) -> None:
        """Add the call of a loss block, after it."""
        kind, given = kind_of_loss(loss), list(arrays_in(inputs))
        if kind is None or len(given) < 2 or len(self._names) >= MAX_CALLS:
            return
        name = unused_name(kind.name.lower(), self._names)
        self._names.add(name)
        predictions, labels = given[:2]
        trace, axes = trace_of(predictions, self._graph_of_call)
        is_sparse = bool(getattr(loss, "_sparse_label", False))
        axis = getattr(loss, "_axis", -1)
        numbers = _known(kind, trace, axes, predictions.shape, axis)
        numbers[facts.IS_SWAPPED] = float(_graph_of(predictions) is None and _graph_of(labels) is not None)
        if not is_sparse:
            numbers |= _label_numbers(read(labels), kind, trace.activation)
        if predictions.ndim > 1:
            with np.errstate(all="ignore"):
                numbers |= probability_facts(_VERBS, read(predictions), kind, axis)
        self._found |= {f"{name}/{fact}": float(number) for fact, number in numbers.items() if number == number}

    def take(self) -> Mapping[str, float]:
        """Return the facts of the step as checks, and start over."""
        found, self._found = self._found, {}
        self._names.clear()
        return found or NO_FACTS


class _Node(NamedTuple):
    """An operator of a graph."""

    nodes: Sequence[Mapping[str, Any]]
    position: int


def trace_of(predictions: Any, graph_of_call: Callable[[], Any | None]) -> tuple[LossTrace, list[int]]:
    """Return what lies between an array and the layer before it, and the axes of each softmax on the way.

    Args:
        graph_of_call: Returns the graph of the only hybridized block that was called; None if there are several.
    """
    trace, graph, axes = LossTrace(_OPERATORS), _graph_of(predictions), list[int]()

    def read_node(node: _Node) -> tuple[str, Sequence[_Node]]:
        operator = node.nodes[node.position]
        name = _name_of(operator)
        if name in _SOFTMAX:
            axes.append(int((operator.get("attrs") or {}).get("axis", -1)))
        if name != _CALL:
            return name, [_Node(node.nodes, given[0]) for given in operator["inputs"]]
        graph = graph_of_call()
        return "identity", [_last_of(graph)] if graph is not None else []

    return trace if graph is None else trace.follow(_last_of(graph), read_node), axes


def _graph_of(array: Any) -> Any | None:
    """Return the graph that an array was computed by, from what requires gradients; None: there is none."""
    try:
        return autograd.get_symbol(array)
    except MXNetError:
        return None


def _last_of(symbol: Any) -> _Node:
    nodes = _nodes(symbol)
    return _Node(nodes, len(nodes) - 1)


def _nodes(symbol: Any) -> Sequence[Mapping[str, Any]]:
    nodes: Sequence[Mapping[str, Any]] = json.loads(symbol.tojson())["nodes"]
    return nodes


def _name_of(node: Mapping[str, Any]) -> str:
    name = str(node["op"]).lower()
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    attributes = node.get("attrs") or {}
    return str(attributes["act_type"]) if name == "activation" and "act_type" in attributes else name


def _known(kind: LossKind, trace: LossTrace, axes: Sequence[int], shape: Sequence[int], axis: int) -> dict[str, float]:
    numbers = {
        **traced_facts(kind, trace),
        facts.IS_BROADCAST: 0.0,  # the losses give labels the shape of the predictions
        facts.CLASSES: float(shape[1] if len(shape) > 1 else 1),
    }
    if shape and (trace.activation is Activation.SOFTMAX or kind is LossKind.CROSS_ENTROPY):
        numbers[facts.SOFTMAX_SIZE] = float(shape[axis])
    own = [axis % len(shape)] if shape and kind is LossKind.CROSS_ENTROPY else []
    numbers[facts.IS_SOFTMAX_OVER_BATCH] = float(len(shape) > 1 and 0 in (*axes, *own))
    return numbers


def _label_numbers(labels: Array, kind: LossKind, activation: Activation) -> dict[str, float]:
    if not labels.size or np.isnan(labels).any():
        return {}
    has_classes = labels.ndim == 2 and labels.shape[1] > 1
    return label_facts(_VERBS, labels, kind, activation, has_classes=has_classes)
