"""Poisson losses in an autograd graph."""

from __future__ import annotations

from typing import Any

from leadline.frameworks.torch.capture.autograd_graph import Edge, inputs_of, kind_of
from leadline.records.loss_facts import LossKind


def poisson_of(node: Any) -> tuple[LossKind, Edge] | None:
    """Return the Poisson loss that a node computes, and the logarithms of its rates; None: it is none."""
    is_whole = kind_of(node) == "AddBackward0" and node.next_functions[1][0] is None  # what is added is of labels only
    difference = node.next_functions[0][0] if is_whole else node
    if difference is None or kind_of(difference) != "SubBackward0" or not _is_poisson(difference):
        return None
    kind = LossKind.POISSON_LIKELIHOOD if is_whole else LossKind.POISSON_NLL
    return kind, difference.next_functions[0][0].next_functions[0]


def _is_poisson(node: Any) -> bool:
    """Whether a difference is ``exp(x) - y * x``."""
    first, second = node.next_functions[:2]
    if first[0] is None or second[0] is None or kind_of(first[0]) != "ExpBackward0":
        return False
    return kind_of(second[0]) == "MulBackward0" and inputs_of(second[0]) == [first[0].next_functions[0]]
