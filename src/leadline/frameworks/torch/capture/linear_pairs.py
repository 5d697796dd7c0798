"""Pairs of linear or convolution layers without anything in between, as far as a short walk through the graph shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import torch

from leadline.frameworks.torch.capture.autograd_graph import (
    VIEWS,
    Edge,
    inputs_of,
    kind_of,
    shape_of,
    sizes_of,
)
from leadline.frameworks.torch.naming.model_names import clean_named_parameters
from leadline.records.loss_facts import CONSECUTIVE_LINEAR

_MAX_NODES: Final = 300
_MAX_NAMED: Final = 4
_MAX_VIEWS: Final = 4
_WEIGHT_HOPS: Final = 3
_PRODUCTS: Final = {"AddmmBackward0": (1, 2, "mat1", "mat2"), "MmBackward0": (0, 1, "self", "mat2")}
"""Linear layers: the places of data and weight among the inputs, and the names of their sizes."""
_CONVOLUTION: Final = "ConvolutionBackward0"


class LinearPairs:
    """Finds layers whose only input is the output of another one, which nothing else uses.

    Not a pair are: factors of a product of low rank (LoRA) or of a separable convolution (a kernel of 1, or of 1 along
    some dimension, or with groups), the output projection of an attention, layers of different kinds.

    Args:
        roots: Returns the models, to name layers.
    """

    def __init__(self, roots: Callable[[], Iterable[torch.nn.Module]]) -> None:
        self._roots = roots

    def find(self, root: Any) -> dict[str, float]:
        """Return the number of pairs, and the first ones by name; looks at the first 300 nodes below a node."""
        nodes, uses = _nodes_below(root)
        pairs = [
            (first, node)
            for node in nodes
            if (first := _layer_before(node, uses)) is not None and not _is_factored(first, node)
        ]
        found = {f"loss/{CONSECUTIVE_LINEAR}": float(len(pairs))}
        for first, second in pairs[::-1][:_MAX_NAMED]:
            found[f"{self._name(first)}+{self._name(second)}/{CONSECUTIVE_LINEAR}"] = 1.0
        return found

    def _name(self, layer: Any) -> str:
        """Return the name of the module that holds a layer's weight."""
        weight = _weight_of(layer)
        for root in self._roots():
            for name, parameter in clean_named_parameters(root):
                if parameter is weight:
                    return name.rpartition(".")[0] or name
        return "layer"


def _nodes_below(root: Any) -> tuple[list[Any], dict[Any, int]]:
    """Return the nodes nearest to a node, and how many of them use each node."""
    nodes, uses = [root], {root: 0}
    for node in nodes:
        for parent, _ in node.next_functions:
            if parent in uses:
                uses[parent] += 1
            elif parent is not None:
                uses[parent] = 1
                if len(nodes) < _MAX_NODES:
                    nodes.append(parent)
    return nodes, uses


def _layer_before(node: Any, uses: dict[Any, int]) -> Any:
    """Return the layer whose output alone a layer is given, directly; None: there is none."""
    kind = kind_of(node)
    if kind != _CONVOLUTION and kind not in _PRODUCTS:
        return None
    edge: Edge = node.next_functions[_PRODUCTS[kind][0] if kind in _PRODUCTS else 0]
    for _ in range(_MAX_VIEWS):
        if edge[0] is None or uses.get(edge[0], 0) != 1:
            return None
        if kind_of(edge[0]) not in VIEWS or kind == _CONVOLUTION:
            break
        before = inputs_of(edge[0])[0]
        if not _keeps_features(before, edge):
            return None
        edge = before
    is_alike = kind_of(edge[0]) == _CONVOLUTION if kind == _CONVOLUTION else kind_of(edge[0]) in _PRODUCTS
    return edge[0] if is_alike and not _is_of_attention(edge[0]) else None


def _keeps_features(before: Edge, after: Edge) -> bool:
    """Whether the last dimension is the same before and after a view, as where a batch of sequences is flattened."""
    shapes = shape_of(before), shape_of(after)
    return bool(shapes[0] and shapes[1]) and shapes[0][-1:] == shapes[1][-1:]  # type: ignore[index]


def _is_of_attention(layer: Any) -> bool:
    """Whether a layer's input is a product of attention weights and values."""
    if kind_of(layer) not in _PRODUCTS:
        return False
    edge: Edge = layer.next_functions[_PRODUCTS[kind_of(layer)][0]]
    for _ in range(2 * _MAX_VIEWS):
        if edge[0] is None:
            return False
        kind = kind_of(edge[0])
        if kind not in VIEWS and kind not in ("TransposeBackward0", "PermuteBackward0"):
            return kind.startswith(("Bmm", "Scaled"))
        edge = inputs_of(edge[0])[0]
    return False


def _is_factored(first: Any, second: Any) -> bool:
    """Whether two layers are the factors of one on purpose."""
    if kind_of(first) == _CONVOLUTION:
        return any(map(_is_partial_convolution, (first, second)))
    inputs, middle = _features(first)
    _, outputs = _features(second)
    return middle < inputs and middle < outputs


def _features(layer: Any) -> tuple[int, int]:
    """Return the numbers of inputs and outputs of a linear layer."""
    sizes = sizes_of(layer, _PRODUCTS[kind_of(layer)][3])
    return (sizes[0], sizes[1]) if len(sizes) == 2 else (0, 0)


def _is_partial_convolution(layer: Any) -> bool:
    weight = _weight_of(layer)
    return weight is None or 1 in weight.shape[2:] or layer._saved_groups > 1


def _weight_of(layer: Any) -> torch.Tensor | None:
    """Return the parameter that is a layer's weight; None if it is computed, or needs no gradient."""
    kind = kind_of(layer)
    node = layer.next_functions[_PRODUCTS[kind][1] if kind in _PRODUCTS else 1][0]
    for _ in range(_WEIGHT_HOPS):
        if node is None:
            return None
        if kind_of(node) == "AccumulateGrad":
            weight: torch.Tensor = node.variable
            return weight
        node = node.next_functions[0][0]
    return None
