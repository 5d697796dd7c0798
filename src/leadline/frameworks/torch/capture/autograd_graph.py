"""Access to autograd graphs: kinds, inputs, shapes and saved tensors of their nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import torch

from leadline.frameworks.torch.capture.device_copy import is_recording
from leadline.frameworks.torch.kernels.elements import local, unreadable_reason

Edge = tuple[Any, int]
"""A node, and the index of the output of it that the edge leads to."""

_WRAPPED: Final = 1 << 64
"""Autograd gives negative dimensions as unsigned integers."""
_HIDDEN: Final = object()
_READ_ELEMENTS: Final = 1 << 14
"""Labels and predictions are read in so many first elements."""
_MAX_NODES: Final = 100_000
VIEWS: Final = frozenset(
    {
        "AliasBackward0",
        "CloneBackward0",
        "ReshapeAliasBackward0",
        "SqueezeBackward0",
        "SqueezeBackward1",
        "SqueezeBackward2",
        "ToCopyBackward0",
        "UnsafeViewBackward0",
        "UnsqueezeBackward0",
        "ViewBackward0",
    }
)
"""Nodes that keep elements and their order."""


def kind_of(node: Any) -> str:
    """Return the kind of a node, such as ``AddmmBackward0`` or ``AccumulateGrad``."""
    name: str = node.name()
    return name.rpartition("::")[2]


def inputs_of(node: Any) -> list[Edge]:
    """Return the edges to the inputs that require a gradient."""
    return [(parent, index) for parent, index in node.next_functions if parent is not None]


def signed_inputs(node: Any) -> list[tuple[Edge, int]]:
    """Return the edges to the inputs that require a gradient, each with its sign in the result; 0: not known."""
    kind = kind_of(node)
    if kind == "NegBackward0":
        signs = [-1]
    elif kind in ("SubBackward0", "RsubBackward1"):
        signs = [1, -1] if kind == "SubBackward0" else [-1, 1]
    elif kind in ("MulBackward0", "DivBackward0"):
        other = saved(node, "other")
        is_factor = other is not None and other.numel() == 1 and other.is_cpu
        signs = [1 if float(other) > 0 else -1] if is_factor else [0, 0]  # type: ignore[arg-type]
    else:
        signs = [1]
    edges = [(edge, signs[min(place, len(signs) - 1)]) for place, edge in enumerate(node.next_functions)]
    return [(edge, sign) for edge, sign in edges if edge[0] is not None]


def shape_of(edge: Edge) -> tuple[int, ...] | None:
    """Return the shape of the tensor that an edge leads to; None if it is not known."""
    metadata = getattr(edge[0], "_input_metadata", ())
    if edge[1] >= len(metadata) or metadata[edge[1]].is_nested_tensor:
        return None
    return tuple(metadata[edge[1]].shape)


def sizes_of(node: Any, name: str) -> tuple[int, ...]:
    """Return sizes that a node has saved: ``self`` for those of its input."""
    return tuple(getattr(node, f"_saved_{name}_sym_sizes", ()))


def dimension_of(node: Any, dimensions: int) -> int:
    """Return the dimension that a node has saved, counted from 0."""
    dimension = int(node._saved_dim)
    return (dimension - _WRAPPED if dimension >= _WRAPPED // 2 else dimension) % dimensions


def saved(node: Any, name: str) -> torch.Tensor | None:
    """Return a tensor that a node has saved for its backward pass, as it is in this process.

    Returns:
        None if it is not saved, was changed in place since, cannot be read, or is packed: to unpack it could repeat
        the computation of a checkpoint.
    """
    packed = getattr(node, f"_raw_saved_{name}", None)
    if packed is None or getattr(packed, "unpack_hook", _HIDDEN) is not None:
        return None
    try:
        tensor = getattr(node, f"_saved_{name}")
    except RuntimeError:  # changed in place: the backward pass will tell the script
        return None
    if not isinstance(tensor, torch.Tensor):
        return None
    tensor = local(tensor.detach())
    is_readable = unreadable_reason(tensor) is None and tensor.layout is torch.strided and not tensor.is_complex()
    return tensor if is_readable and tensor.numel() and not is_recording(tensor.device) else None


def blanks_of(node: Any) -> torch.Tensor | None:
    """Return whether each label of a CTC loss is its blank, without those beyond the length of their sequence.

    Returns:
        Shape ``(labels,)``; None if there is none, or the node does not show it.
    """
    targets, lengths = saved(node, "targets"), getattr(node, "_saved_target_lengths", None)
    blank = getattr(node, "_saved_blank", None)
    if targets is None or blank is None or not isinstance(lengths, tuple) or not sum(lengths):
        return None
    if targets.dim() == 2:
        limits = torch.tensor(lengths, device=targets.device).unsqueeze(1)
        targets = targets[torch.arange(targets.shape[1], device=targets.device) < limits]
    return targets == blank


def ignored_of(node: Any) -> tuple[int, torch.Tensor] | None:
    """Return the class index that a negative log-likelihood ignores, and whether each label is this index.

    Returns:
        The second of the shape of the labels; None if the node does not show them.
    """
    index, labels = getattr(node, "_saved_ignore_index", None), saved(node, "target")
    if index is None or labels is None:
        return None
    index = index - _WRAPPED if index >= _WRAPPED // 2 else index
    return index, labels == index


def first_rows(values: torch.Tensor) -> torch.Tensor:
    """Return the first rows of a tensor with dimensions, at least one, as far as they are looked at."""
    return values[: max(1, _READ_ELEMENTS * values.shape[0] // values.numel())]


def leaf_ids(node: Any) -> set[int] | None:
    """Return the identities of the leaves that a backward pass from a node reaches; None: the graph hides some."""
    reached = set()
    for count, below in enumerate(nodes_below([node])):
        if "Checkpoint" in below.name() or count >= _MAX_NODES:
            return None
        if (leaf := getattr(below, "variable", None)) is not None:  # of the nodes that accumulate gradients
            reached.add(id(leaf))
    return reached


def nodes_below(roots: Iterable[Any]) -> Iterator[Any]:
    """Iterate over nodes of a graph and all that are below them."""
    pending = [node for node in roots if node is not None]
    seen = set(pending)
    while pending:
        node = pending.pop()
        yield node
        following = {parent for parent, _ in node.next_functions if parent is not None} - seen
        seen |= following
        pending += following


def below_views(edge: Edge) -> Edge:
    """Return the first edge that does not lead to a node of ``VIEWS``."""
    while edge[0] is not None and kind_of(edge[0]) in VIEWS:
        edge = edge[0].next_functions[0]
    return edge
