"""Facts about the class indices that a negative log-likelihood is given, and their weights."""

from __future__ import annotations

from typing import Any, Final

import torch

from leadline.frameworks.torch.capture.autograd_graph import Edge, below_views, ignored_of, kind_of, saved
from leadline.records import loss_facts as facts

_MIN_LABELS, _MIN_SAMPLES = 16, 4
_MAX_COMPARED: Final = 1 << 20
_MAX_PAIRED, _COMPARED_ROWS = 1024, 32
_MAX_NODES: Final = 12
_SCALINGS: Final = frozenset({"LogSoftmaxBackward0", "MulBackward0", "DivBackward0"})
_PRODUCTS: Final = frozenset({"MmBackward0", "BmmBackward0"})
_TRANSPOSITIONS: Final = frozenset({"TBackward0", "TransposeBackward0", "PermuteBackward0", "ExpandBackward0"})


def class_label_facts(likelihood: Any) -> dict[str, torch.Tensor]:
    """Return the facts about the labels of a negative log-likelihood, from its node; empty: none are known."""
    labels, values, ignored = saved(likelihood, "target"), saved(likelihood, "self"), ignored_of(likelihood)
    if labels is None or values is None or ignored is None or not labels.numel():
        return {}
    found: dict[str, torch.Tensor] = {}
    weights = saved(likelihood, "weight")
    if weights is not None:
        found[facts.HAS_CLASS_WEIGHTS] = torch.ones(())
    if weights is not None and labels.numel() >= _MIN_LABELS:
        found |= _weight_facts(labels.flatten(), weights.double(), ignored[1].flatten())
    samples = labels.shape[0] if labels.dim() else 0
    is_square = labels.dim() == 1 and samples >= _MIN_SAMPLES and tuple(values.shape) == (samples, samples)
    operands = _paired(likelihood) if is_square else []
    if operands:
        found[facts.IS_ONE_OF_PAIRS] = (labels == labels[0]).all().double()
        of_themselves = values.diagonal()
        is_largest = (of_themselves == values.amax(1)).all() & (labels != torch.arange(samples).to(labels)).all()
        found[facts.HAS_SELF_PAIRS] = is_largest.double() * float(operands[0] is operands[1])
        if samples <= _MAX_PAIRED:
            found[facts.OWN_NEGATIVES] = _own_negatives(labels, values)
    return found


def _own_negatives(labels: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return the share of N samples, each with its own output of N, that have another output with the same values.

    It is 0 unless two outputs have such others: those of one that is all zeros do, too.

    Shape:
        labels: ``(N,)``; values: ``(N, N)``.
    """
    are_own = (labels == torch.arange(len(labels)).to(labels)).all()
    is_same = torch.ones_like(values, dtype=torch.bool)
    for row in values[:_COMPARED_ROWS]:
        is_same = is_same & (row[:, None] == row)
    others = is_same.sum(1) > 1
    is_first = ~is_same.tril(-1).any(1)
    return others.double().mean() * are_own * ((others & is_first).sum() > 1)


def _paired(likelihood: Any) -> list[Any]:
    """Return the nodes of two computed matrices, and not of a layer, whose products, possibly scaled, are the logits.

    Empty: they are no such products.
    """
    pending = [likelihood.next_functions[0]]
    for _ in range(_MAX_NODES):
        node = below_views(pending.pop(0))[0] if pending else None
        if node is None:
            continue
        if kind_of(node) in _PRODUCTS:
            operands = [_transposed(edge) for edge in node.next_functions]
            are_computed = all(operand is not None and kind_of(operand) != "AccumulateGrad" for operand in operands)
            return operands if are_computed else []
        if kind_of(node) in _SCALINGS | _TRANSPOSITIONS:
            pending += node.next_functions
    return []


def _transposed(edge: Edge) -> Any:
    """Return the node below views and transpositions."""
    node = below_views(edge)[0]
    while node is not None and kind_of(node) in _TRANSPOSITIONS:
        node = below_views(node.next_functions[0])[0]
    return node


def _weight_facts(labels: torch.Tensor, weights: torch.Tensor, is_ignored: torch.Tensor) -> dict[str, torch.Tensor]:
    if labels.numel() * weights.numel() > _MAX_COMPARED:
        return {}
    # compared with each class, since counts by scattering may be refused where algorithms have to be deterministic
    is_of_class = (torch.arange(len(weights), device=labels.device)[:, None] == labels) & ~is_ignored
    occurs = is_of_class.any(1).double()
    counts = is_of_class.sum(1).double()
    of_labels, of_classes = (counts * weights).sum() / counts.sum(), (occurs * weights).sum() / occurs.sum()
    return {facts.WEIGHT_OF_LABELS: of_labels / of_classes}
