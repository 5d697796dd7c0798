"""Losses that are multiplied by a function of themselves, as a focal loss multiplies that of each sample."""

from __future__ import annotations

import math
from typing import Any, Final

from leadline.frameworks.torch.capture.autograd_graph import VIEWS, inputs_of, kind_of, saved, shape_of, sizes_of

_MAX_NODES: Final = 12
_SCALINGS: Final = VIEWS | {"DivBackward0", "MeanBackward0", "MulBackward0", "NegBackward0"}
_FUNCTIONS: Final = _SCALINGS | {"AddBackward0", "PowBackward0", "RsubBackward1", "SubBackward0"}
_REDUCTIONS: Final = ("MeanBackward", "SumBackward")


def is_weighted_by_its_mean(node: Any) -> bool:
    """Return whether a node multiplies the mean, or sum, of the losses of samples by a function of its exponential.

    ``(1 - exp(-loss)) ** 2 * loss`` of a mean has the same factor for each sample.
    """
    inputs = inputs_of(node)
    if kind_of(node) != "MulBackward0" or len(inputs) != 2 or shape_of((node, 0)) != ():
        return False
    for (factor, _), (weighted, _) in (inputs, inputs[::-1]):
        exponential, loss = _below(factor, _FUNCTIONS), _reduced(weighted)
        if kind_of(exponential) == "ExpBackward0" and loss is not None:
            return _reduced(inputs_of(exponential)[0][0]) is loss
    return False


def _below(node: Any, passed: frozenset[str]) -> Any:
    """Return the first node that is none of the operations that are passed, each with one input that has a gradient."""
    for _ in range(_MAX_NODES):
        if kind_of(node) not in passed or len(inputs := inputs_of(node)) != 1 or shape_of((node, 0)) != ():
            break
        if _count(node) > 1:
            break
        node = inputs[0][0]
    return node


def _reduced(node: Any) -> Any:
    """Return the node that reduces the losses of several samples to the number that a node scales; None: none is."""
    node = _below(node, _SCALINGS)
    return node if _count(node) > 1 and shape_of((node, 0)) == () else None


def _count(node: Any) -> int:
    """Return how many losses a node reduces to one number; 1: it is no reduction."""
    kind = kind_of(node)
    if kind.startswith(_REDUCTIONS):
        return math.prod(sizes_of(node, "self"))
    labels = saved(node, "target") if getattr(node, "_saved_reduction", 0) else None
    return labels.numel() if labels is not None else 1
