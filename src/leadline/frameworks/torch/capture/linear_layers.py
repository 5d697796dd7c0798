"""What a short walk through the graph shows of linear and convolution layers: pairs without anything in between, layers
that are given data, and outputs that are added to themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

import torch

from leadline.frameworks.torch.capture.autograd_graph import (
    VIEWS,
    Edge,
    below_views,
    dimension_of,
    first_rows,
    inputs_of,
    kind_of,
    saved,
    shape_of,
    sizes_of,
)
from leadline.frameworks.torch.capture.device_copy import number_of
from leadline.frameworks.torch.kernels.elements import local, unreadable_reason
from leadline.frameworks.torch.naming.model_names import clean_named_parameters
from leadline.records.loss_facts import ADDED_TO_ITSELF, CONSECUTIVE_LINEAR, GIVEN_SIZE, IDENTICAL_UNITS

_MAX_NODES: Final = 300
_MAX_NAMED: Final = 4
_MAX_VIEWS: Final = 6
_MAX_HOPS: Final = 8
"""Nodes between a layer and what adds its output to itself."""
_WEIGHT_HOPS: Final = 5
_PRODUCTS: Final = {"AddmmBackward0": (1, 2, "mat1", "mat2"), "MmBackward0": (0, 1, "self", "mat2")}
"""Linear layers: the places of data and weight among the inputs, and the names of their sizes."""
_CONVOLUTION: Final = "ConvolutionBackward0"
_LAYOUTS: Final = frozenset({"CloneBackward0", "PermuteBackward0"})
"""Nodes that change the layout of images between convolutions."""

_SCALES: Final = frozenset({"DivBackward0", "MulBackward0", "NativeDropoutBackward0"})
_DIVISIONS: Final = frozenset(
    {"SelectBackward0", "SliceBackward0", "SplitBackward0", "SplitWithSizesBackward0", "UnbindBackward0"}
)
_Users = dict[Any, list[Any]]
"""The nodes that use the output of each node."""


class LinearLayers:
    """Finds layers whose only input is the output of another one, which nothing else uses, and those given data.

    Not a pair are: factors of a product of low rank or of a separable convolution (a kernel of 1, or of 1 along some
    dimension, or with groups), a product that is added to a frozen layer (an adapter, such as LoRA), the output
    projection of an attention, layers of different kinds. Units are not identical if something is added to each of
    them: then their gradients differ (the zeros of an adapter, or of the last layer of a residual branch); nor if they
    are divided among several uses.

    Args:
        roots: Returns the models, to name layers.
    """

    def __init__(self, roots: Callable[[], Iterable[torch.nn.Module]]) -> None:
        self._roots = roots

    def find(self, root: Any) -> dict[str, Any]:
        """Return the number of pairs, the first ones by name, the largest values of data that layers are given, and the
        layers whose outputs are added to themselves.

        Looks at the first 300 nodes below a node.
        """
        nodes, users = _nodes_below(root)
        pairs = [
            (first, node)
            for node in nodes
            if (first := _layer_before(node, users)) is not None
            and not _is_factored(first, node)
            and not _is_adapter(node, users)
        ]
        found: dict[str, Any] = {f"loss/{CONSECUTIVE_LINEAR}": float(len(pairs))}
        for first, second in pairs[::-1][:_MAX_NAMED]:
            found[f"{self._name(first)}+{self._name(second)}/{CONSECUTIVE_LINEAR}"] = 1.0
        alike = _identical_layers(nodes[::-1], users)
        found[f"loss/{IDENTICAL_UNITS}"] = float(len(alike))
        for first, second in alike[:_MAX_NAMED]:
            found[f"{self._name(first)}+{self._name(second)}/{IDENTICAL_UNITS}"] = 1.0
        for layer, data in [(node, data) for node in nodes if (data := _data_of(node)) is not None][:_MAX_NAMED]:
            size = number_of(first_rows(data).abs().max())
            if size is not None:
                found[f"{self._name(layer)}/{GIVEN_SIZE}"] = size
        doubled = Counter(self._name(layer) for node in nodes if (layer := _added_to_itself(node)) is not None)
        return found | {f"{name}/{ADDED_TO_ITSELF}": float(count) for name, count in doubled.most_common(_MAX_NAMED)}

    def _name(self, layer: Any) -> str:
        """Return the name of the module that holds a layer's weight."""
        weight = _weight_of(layer)
        for root in self._roots():
            for variable in getattr(root, "variables", ()):  # of a model of Keras, which has names of its own
                if getattr(variable, "value", None) is weight:
                    return str(variable.path).rpartition("/")[0]
            for name, parameter in clean_named_parameters(root):
                if parameter is weight:
                    return name.rpartition(".")[0] or name
        return "layer"


def _added_to_itself(node: Any) -> Any:
    """Return the layer whose output, or what follows it, a node adds to itself; None: it does not."""
    edges = node.next_functions
    if kind_of(node) != "AddBackward0" or edges[0][0] is None or edges[0] != edges[1] or node._saved_alpha != 1:
        return None
    below = edges[0][0]
    for _ in range(_MAX_HOPS):
        if below is None or kind_of(below) == _CONVOLUTION or kind_of(below) in _PRODUCTS:
            return below
        below = next((parent for parent, _ in below.next_functions if parent is not None), None)
    return None


def _identical_layers(nodes: list[Any], users: _Users) -> list[tuple[Any, Any]]:
    """Return the layers whose units are identical, each with a later one that weighs all of them alike.

    Args:
        nodes: Those of a graph, the first of the forward pass first.
    """
    layers = [(node, weight) for node in nodes if (weight := _weight_by_unit(node)) is not None]
    pairs = []
    for place, (node, weight) in enumerate(layers):
        if weight.shape[0] < 2 or not (_are_alike(weight) and _are_biases_alike(node)):
            continue
        if _addition_to(node, users) is not None or _are_units_divided(node, users):
            continue
        fitting = [other for other in layers[place + 1 :] if other[1].shape[1] % weight.shape[0] == 0]
        if fitting and _are_alike(fitting[0][1].unflatten(1, (weight.shape[0], -1)).movedim(1, 0)):
            pairs.append((node, fitting[0][0]))
    return pairs


def _weight_by_unit(node: Any) -> torch.Tensor | None:
    """Return the parameter of a layer with its units in dimension 0 and its inputs in dimension 1; None: no layer."""
    kind = kind_of(node)
    weight = _weight_of(node) if kind == _CONVOLUTION or kind in _PRODUCTS else None
    if weight is None or not weight.is_cpu or weight.dim() < 2 or not _is_readable(weight):
        return None
    weight = weight.detach()
    if kind in _PRODUCTS:
        sizes = _features(node)
        return weight if tuple(weight.shape) == sizes[::-1] and kind_of_weight(node) == "TBackward0" else weight.T
    is_own_layout = tuple(weight.shape) == shape_of(node.next_functions[1])
    return weight if is_own_layout else weight.movedim((-1, -2), (0, 1))  # Keras puts inputs and units last


def _is_readable(weight: torch.Tensor) -> bool:
    """Whether the elements of a parameter are in memory: FSDP frees them between two uses."""
    return unreadable_reason(weight) is None and bool(local(weight.detach()).untyped_storage().nbytes())


def kind_of_weight(layer: Any) -> str:
    """Return the kind of the node that passes a linear layer its weight."""
    return kind_of(layer.next_functions[_PRODUCTS[kind_of(layer)][1]][0])


def _are_alike(slices: torch.Tensor) -> bool:
    """Whether all slices along dimension 0 are equal; two of random ones, which differ, are all that is read."""
    return torch.equal(slices[0], slices[1]) and bool((slices == slices[:1]).all())


def _are_biases_alike(layer: Any) -> bool:
    place = {"AddmmBackward0": 0, _CONVOLUTION: 2}.get(kind_of(layer))
    bias = layer.next_functions[place][0] if place is not None else None
    return bias is None or kind_of(bias) != "AccumulateGrad" or _are_alike(bias.variable.detach())


def _data_of(node: Any) -> torch.Tensor | None:
    """Return the data that a layer is given; None: it is given what other layers computed, or it is no layer."""
    kind = kind_of(node)
    if kind == _CONVOLUTION:
        place, name = 0, "input"
    elif kind in _PRODUCTS:
        place, _, _, _ = _PRODUCTS[kind]
        name = "mat1" if kind == "AddmmBackward0" else "self"
    else:
        return None
    data = saved(node, name) if node.next_functions[place][0] is None else None
    return data if data is not None and data.dim() and data.is_floating_point() else None


def _nodes_below(root: Any) -> tuple[list[Any], _Users]:
    """Return the nodes nearest to a node, and which of them use each node."""
    nodes: list[Any] = [root]
    users: _Users = {root: []}
    for node in nodes:
        for parent, _ in node.next_functions:
            if parent in users:
                users[parent].append(node)
            elif parent is not None:
                users[parent] = [node]
                if len(nodes) < _MAX_NODES:
                    nodes.append(parent)
    return nodes, users


def _addition_to(layer: Any, users: _Users) -> Any:
    """Return the node that adds something other than a bias to a layer's output, scaled or not; None: none does."""
    node = layer
    for _ in range(_MAX_VIEWS):
        if len(users.get(node, ())) != 1:
            return None
        (before, node) = (node, users[node][0])
        kind = kind_of(node)
        if kind == "AddBackward0":
            bias = _before_bias(node)
            if bias is None or bias[0] is not before:
                return node
        elif kind not in VIEWS and kind not in _SCALES and kind not in _LAYOUTS:
            return None
    return None


def _are_units_divided(layer: Any, users: _Users) -> bool:
    """Whether units of a layer are told apart behind it, as the scale and the shift of a coupling layer."""
    node = layer
    for _ in range(_MAX_VIEWS):
        following = users.get(node, ())
        if any(kind_of(user) in _DIVISIONS and _is_of_units(user, layer) for user in following):
            return True
        if len(following) != 1 or kind_of(following[0]) not in VIEWS | _SCALES | _LAYOUTS:
            return False
        node = following[0]
    return False


def _is_of_units(division: Any, layer: Any) -> bool:
    shape = shape_of(division.next_functions[0])
    if not shape:
        return False
    place = 1 if kind_of(layer) == _CONVOLUTION else len(shape) - 1
    return dimension_of(division, len(shape)) == place


def _is_adapter(layer: Any, users: _Users) -> bool:
    """Whether a layer's output is added to that of a frozen layer, or to what needs no gradient."""
    added = _addition_to(layer, users)
    if added is None:
        return False
    others = [below_views(edge)[0] for edge in added.next_functions]
    return any(
        other is None or ((kind_of(other) in _PRODUCTS or kind_of(other) == _CONVOLUTION) and _weight_of(other) is None)
        for other in others
    )


def _layer_before(node: Any, users: _Users) -> Any:
    """Return the layer whose output alone a layer is given, directly; None: there is none."""
    kind = kind_of(node)
    if kind != _CONVOLUTION and kind not in _PRODUCTS:
        return None
    edge: Edge = node.next_functions[_PRODUCTS[kind][0] if kind in _PRODUCTS else 0]
    for _ in range(_MAX_VIEWS):
        if edge[0] is None or len(users.get(edge[0], ())) != 1:
            return None
        before = _before_bias(edge[0])
        if before is None:
            if kind_of(edge[0]) not in (_LAYOUTS if kind == _CONVOLUTION else VIEWS):
                break
            before = inputs_of(edge[0])[0]
            if kind != _CONVOLUTION and not _keeps_features(before, edge):
                return None
        edge = before
    is_alike = kind_of(edge[0]) == _CONVOLUTION if kind == _CONVOLUTION else kind_of(edge[0]) in _PRODUCTS
    return edge[0] if is_alike and not _is_of_attention(edge[0]) else None


def _before_bias(node: Any) -> Edge | None:
    """Return the edge to what a bias is added to; None: the node adds no parameter of one dimension."""
    if kind_of(node) != "AddBackward0":
        return None
    for bias, other in (node.next_functions, node.next_functions[::-1]):
        leaf = below_views(bias)[0]
        if leaf is not None and kind_of(leaf) == "AccumulateGrad" and leaf.variable.dim() == 1:
            before: Edge = other
            return before
    return None


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
    weight = shape_of(layer.next_functions[1])
    return _weight_of(layer) is None or weight is None or 1 in weight[2:] or layer._saved_groups > 1


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
