"""The way back from the input of a loss call to the layer that computed it, and the activations on it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import torch

from leadline.frameworks.torch.capture.autograd_graph import (
    VIEWS,
    Edge,
    dimension_of,
    inputs_of,
    kind_of,
    saved,
    shape_of,
)
from leadline.records.loss_facts import Activation

_MAX_NODES: Final = 48
_CHECKED_NOISE: Final = 4096
_ACTIVATIONS: Final = {
    "EluBackward0": Activation.OTHER,
    "ExpBackward0": Activation.EXP,
    "GeluBackward0": Activation.OTHER,
    "GluBackward0": Activation.OTHER,
    "HardsigmoidBackward0": Activation.SIGMOID,
    "HardswishBackward0": Activation.OTHER,
    "HardtanhBackward0": Activation.OTHER,
    "LeakyReluBackward0": Activation.OTHER,
    "LogSigmoidBackward0": Activation.LOG_SIGMOID,
    "LogSoftmaxBackward0": Activation.LOG_SOFTMAX,
    "MishBackward0": Activation.OTHER,
    "PreluKernelBackward0": Activation.OTHER,
    "ReluBackward0": Activation.RELU,
    "SigmoidBackward0": Activation.SIGMOID,
    "SiluBackward0": Activation.OTHER,
    "SoftmaxBackward0": Activation.SOFTMAX,
    "SoftplusBackward0": Activation.SOFTPLUS,
    "TanhBackward0": Activation.TANH,
}
_LOGARITHMS: Final = {
    Activation.SOFTMAX: Activation.LOG_SOFTMAX,
    Activation.SIGMOID: Activation.LOG_SIGMOID,
}
_LAYERS: Final = frozenset(
    {
        "AddmmBackward0",
        "ConvolutionBackward0",
        "CudnnBatchNormBackward0",
        "LinearBackward0",
        "MkldnnLinearBackward0",
        "NativeBatchNormBackward0",
        "NativeGroupNormBackward0",
        "NativeLayerNormBackward0",
    }
)
_RESHAPES: Final = frozenset(
    {
        "ExpandBackward0",
        "GatherBackward0",
        "IndexBackward0",
        "IndexSelectBackward0",
        "MaskedSelectBackward0",
        "PermuteBackward0",
        "ReshapeAliasBackward0",
        "SelectBackward0",
        "SliceBackward0",
        "SplitBackward0",
        "SqueezeBackward0",
        "SqueezeBackward1",
        "SqueezeBackward2",
        "TBackward0",
        "TransposeBackward0",
        "UnbindBackward0",
        "UnsafeSplitBackward0",
        "UnsafeViewBackward0",
        "UnsqueezeBackward0",
        "ViewBackward0",
    }
)
"""Nodes that rearrange or select elements."""
_SAME: Final = (VIEWS - _RESHAPES) | {
    "ClampBackward0",
    "ClampBackward1",
    "ClampMaxBackward0",
    "ClampMinBackward0",
    "MaskedFillBackward0",
}
"""Nodes that keep the shape, and the elements as far as they are within bounds."""
_JOINS: Final = frozenset({"CatBackward0", "StackBackward0"})
_SHIFTS: Final = frozenset({"AddBackward0", "AddBackward1", "RsubBackward1", "SubBackward0", "SubBackward1"})
_SCALES: Final = frozenset(
    {"DivBackward0", "DivBackward1", "MulBackward0", "MulBackward1", "NegBackward0", "PowBackward0"}
)
_DROPOUTS: Final = frozenset({"FusedDropoutBackward0", "NativeDropoutBackward0"})
_REPLICATED: Final = "_DDPSinkBackward"
"""A node through which DistributedDataParallel passes each output of a model."""
_WEIGHTS: Final = frozenset({"AccumulateGrad", "TBackward0", "ToCopyBackward0"})


@dataclass(slots=True)
class ActivationTrace:
    """What lies between a loss and the layer before it."""

    activation: Activation = Activation.UNKNOWN
    inner: Activation = Activation.UNKNOWN
    is_rescaled: bool = False
    has_dropout: bool = False
    softmax_size: int | None = None
    is_softmax_over_batch: bool = False
    is_log: bool = False
    is_normalized: bool = False
    """Whether the values are divided by their sum over the classes, as Keras does with probabilities."""
    is_reshaped: bool = False
    """Whether the shape of the current node may be another one than that of the input of the loss."""
    result: torch.Tensor | None = None
    """The output of the activation, if it is the input of the loss."""
    _is_inner: bool = False
    """Whether the last activation was found, and the one before it is looked for."""

    def follow(self, edge: Edge) -> ActivationTrace:
        """Follow an edge back to a layer, or to a node that is not known; return the trace."""
        for _ in range(_MAX_NODES):
            following = self._pass(edge) if edge[0] is not None else None
            if following is None:
                break
            edge = following
        return self

    def add_softmax(self, edge: Edge) -> None:
        """Add a softmax, or the one that the loss applies itself."""
        shape = shape_of(edge)
        if not shape:
            return
        dimension = dimension_of(edge[0], len(shape))
        if math.prod(shape) > 1:
            self.softmax_size = min(shape[dimension], self.softmax_size or shape[dimension])
        if len(shape) > 1 and dimension == 0 and not self.is_reshaped:
            self.is_softmax_over_batch |= 1 < shape[0] != shape[1]

    def _pass(self, edge: Edge) -> Edge | None:
        """Add a node to the trace; return the edge to its input, None at the end."""
        node, kind = edge[0], kind_of(edge[0])
        inputs = inputs_of(node)
        if kind == _REPLICATED and edge[1] < len(node.next_functions):
            following: Edge = node.next_functions[edge[1]]
            return following
        if kind in _LAYERS or (kind == "MmBackward0" and _is_layer(node)):
            self._end(Activation.NONE)
            return None
        if kind in _ACTIVATIONS:
            return self._pass_activation(edge, _ACTIVATIONS[kind], inputs)
        if kind in _JOINS and len({kind_of(parent) for parent, _ in inputs}) == 1:
            self.is_reshaped = True
            return inputs[0]
        if kind in _SHIFTS or kind in _SCALES:
            return self._pass_arithmetic(node, kind, inputs)
        return self._pass_view(kind, inputs)

    def _pass_view(self, kind: str, inputs: list[Edge]) -> Edge | None:
        if len(inputs) != 1:
            return None
        if kind in _DROPOUTS:
            self.has_dropout = True
        elif kind == "LogBackward0" and not self._is_inner:
            self.is_log = True
        elif kind in _RESHAPES:
            self.is_reshaped = True
        elif kind not in _SAME:
            return None
        return inputs[0]

    def _pass_activation(self, edge: Edge, activation: Activation, inputs: list[Edge]) -> Edge | None:
        if activation in (Activation.SOFTMAX, Activation.LOG_SOFTMAX):
            self.add_softmax(edge)
        if self._is_inner:
            self._end(activation)
            return None
        if not (self.is_rescaled or self.is_reshaped or self.is_log or self.has_dropout):
            self.result = saved(edge[0], "result")
        self._end(activation)
        self._is_inner = True
        return inputs[0] if len(inputs) == 1 else None

    def _pass_arithmetic(self, node: Any, kind: str, inputs: list[Edge]) -> Edge | None:
        """Pass a constant, or the bias of a layer, that is added; a constant factor; dropout's noise; a division by the
        sum."""
        if kind == "DivBackward0" and not self._is_inner and is_normalization(node):
            self.is_normalized = True
            return inputs[0]
        data = [edge for edge in inputs if kind_of(edge[0]) != "AccumulateGrad"] if kind in _SHIFTS else inputs
        if len(data) != 1:
            return None
        if kind == "MulBackward0" and len(inputs) == 1 and _is_dropout(node):
            self.has_dropout = True
        elif self._is_inner:
            return None  # what an activation is given may be scaled on purpose
        else:
            self.is_rescaled = True
        return data[0]

    def _end(self, activation: Activation) -> None:
        if self._is_inner:
            self.inner = activation
        else:
            self.activation = _LOGARITHMS.get(activation, Activation.UNKNOWN) if self.is_log else activation


def is_normalization(node: Any) -> bool:
    """Whether a division is one of values by their own sum over a dimension that is kept."""
    if kind_of(node) != "DivBackward0":
        return False
    values, total = node.next_functions[0], below_clamp(node.next_functions[1])
    return (
        values[0] is not None
        and total[0] is not None
        and kind_of(total[0]) == "SumBackward1"
        and total[0].next_functions[0] == values
    )


def below_clamp(edge: Edge) -> Edge:
    """Return the first edge that leads to no view and no bound."""
    while edge[0] is not None and (kind_of(edge[0]) in VIEWS or kind_of(edge[0]).startswith("Clamp")):
        edge = edge[0].next_functions[0]
    return edge


def _is_layer(node: Any) -> bool:
    """Whether a matrix product is one with a parameter."""
    weight = node.next_functions[1][0]
    return weight is not None and kind_of(weight) in _WEIGHTS


def _is_dropout(node: Any) -> bool:
    """Whether a factor consists of zeros and one number above 1; accelerators have a kernel for dropout instead."""
    noise = saved(node, "other")
    if noise is None or not noise.is_cpu or noise.dim() < 2 or not noise.is_floating_point():
        return False
    noise = noise.flatten()[:_CHECKED_NOISE]
    largest = noise.max()
    is_zero = noise == 0
    return bool(largest > 1 and is_zero.any() and (is_zero | (noise == largest)).all())
