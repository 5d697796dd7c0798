"""Losses of a policy: products of log-probabilities and advantages, and ratios to the policy that has sampled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

import torch

from leadline.frameworks.torch.capture.autograd_graph import (
    VIEWS,
    below_views,
    inputs_of,
    kind_of,
    nodes_below,
    saved,
)
from leadline.records.loss_facts import HAS_MOVING_ADVANTAGE, IS_RATIO_ONE

_MAX_NODES: Final = 256
_JOINED: Final = VIEWS | {
    "AddBackward0",
    "AddBackward1",
    "CatBackward0",
    "NegBackward0",
    "StackBackward0",
    "SubBackward0",
}
_LINEAR: Final = _JOINED | {"DivBackward0", "MulBackward0"}
_SELECTED: Final = _JOINED | {"GatherBackward0", "IndexBackward0", "SelectBackward0", "SumBackward0", "SumBackward1"}
_LOSS: Final = _LINEAR | {
    "ClampBackward0",
    "ClampBackward1",
    "MaximumBackward0",
    "MeanBackward0",
    "MeanBackward1",
    "MinimumBackward0",
    "PowBackward0",
    "SumBackward0",
    "SumBackward1",
    "WhereBackward0",
}
_CLAMPS: Final = frozenset({"ClampBackward0", "ClampBackward1"})
_ERRORS: Final = frozenset({"HuberLossBackward0", "MseLossBackward0", "SmoothL1LossBackward0"})
_LINEAR_LAYERS: Final = frozenset({"AddmmBackward0", "LinearBackward0", "MmBackward0", "SelectBackward0"})
_LOG_PROBABILITIES: Final = frozenset({"LogSoftmaxBackward0", "LogsumexpBackward0", "NllLossBackward0"})
_MIN_RATIOS: Final = 8
_WATCHED: Final = 16
_ELEMENTS: Final = 1024
_MOVED: Final = 1e-4
"""The share of their size by which an update must have moved weights, so that no log-probability stays the same."""


class PolicyGradients:
    """Facts about the losses of a policy at the first two steps, as named in ``leadline.records.loss_facts``."""

    def __init__(self) -> None:
        self._calls = 0
        self._weights: list[tuple[torch.Tensor, torch.Tensor]] = []
        """Weights of the policy, whose ratio was 1, and their first elements as they were."""

    def facts(self, root: Any, calls: int, *, is_first: bool) -> dict[str, float]:
        """Return the facts of a loss.

        Args:
            root: The node of the loss.
            calls: How often models were called without gradients so far, as for a rollout.
            is_first: Whether the step is the first of a training.
        """
        if is_first:
            self._weights = []
        nodes = list(_below([root], _LOSS))
        found = {f"loss/{HAS_MOVING_ADVANTAGE}": 1.0} if _has_moving_advantage(nodes) else {}
        if (ratio := _ratio_of_one(nodes)) is None:
            return found
        if self._weights and calls and calls == self._calls and self._have_moved():
            found[f"loss/{IS_RATIO_ONE}"] = float(ratio._saved_result.numel())
        self._calls = calls
        self._weights = [(leaf, _first(leaf).clone()) for leaf in islice(_leaves(ratio), _WATCHED)]
        return found

    def _have_moved(self) -> bool:
        pairs = [(_first(leaf), before) for leaf, before in self._weights]
        distance = sum(float((now - before).double().square().sum()) for now, before in pairs)
        return distance > _MOVED**2 * sum(float(before.double().square().sum()) for _, before in pairs)


def _below(nodes: Sequence[Any], passed: frozenset[str]) -> Iterator[Any]:
    """Iterate over nodes and those that are below some kinds of nodes, the nearest first."""
    pending, known = list(nodes), set(nodes)
    for node in pending:
        yield node
        if kind_of(node) in passed and len(known) < _MAX_NODES:
            following = [below for below, _ in inputs_of(node) if below not in known]
            known.update(following)
            pending += dict.fromkeys(following)


def _has_moving_advantage(nodes: Sequence[Any]) -> bool:
    """Return whether log-probabilities are multiplied by an error that has a gradient and is minimized as well."""
    squared = {below for node in nodes if (below := _squared(node)) is not None}
    if not squared:
        return False
    for node in nodes:
        sides = [below_views(edge)[0] for edge in inputs_of(node)]
        if kind_of(node) != "MulBackward0" or len(sides) != 2 or sides[0] is sides[1]:
            continue
        for factor, other in (sides, sides[::-1]):
            is_error = not squared.isdisjoint(_below([factor], _LINEAR))
            if is_error and any(map(_is_log_probability, _below([other], _SELECTED))):
                return True
    return False


def _is_log_probability(node: Any) -> bool:
    """Return whether a node computes logarithms of probabilities of classes, or of a normal distribution's density."""
    if kind_of(node) != "DivBackward0":
        return kind_of(node) in _LOG_PROBABILITIES
    for kind in ("NegBackward0", "PowBackward0"):
        node = node.next_functions[0][0]
        if node is None or kind_of(node) != kind:
            return False
    return getattr(node, "_saved_exponent", None) == 2


def _squared(node: Any) -> Any:
    """Return the node whose result a node squares, or compares with a constant and squares; None: it does not.

    Results of activations are left out: a probability may be squared, and multiplied by its logarithm.
    """
    inputs, kind = inputs_of(node), kind_of(node)
    is_square = kind == "PowBackward0" and getattr(node, "_saved_exponent", None) == 2
    is_product = kind == "MulBackward0" and len(inputs) == 2 and inputs[0] == inputs[1]
    if not (is_square or is_product or kind in _ERRORS) or not inputs:
        return None
    node = below_views(inputs[0])[0]
    if kind_of(node) == "SubBackward0" and len(inputs := inputs_of(node)) == 1:
        node = below_views(inputs[0])[0]
    return node if kind_of(node) in _LINEAR | _LINEAR_LAYERS else None


def _ratio_of_one(nodes: Sequence[Any]) -> Any:
    """Return the node of ratios that are all exactly 1, and that are clipped as well; None: there is none."""
    clipped = {below_views(inputs_of(node)[0])[0] for node in nodes if kind_of(node) in _CLAMPS}
    for node in nodes:
        if kind_of(node) != "ExpBackward0" or node not in clipped:
            continue
        difference = below_views(inputs_of(node)[0])[0]
        ratios = saved(node, "result")
        if kind_of(difference) != "SubBackward0" or len(inputs_of(difference)) != 1 or ratios is None:
            continue
        if ratios.numel() >= _MIN_RATIOS and bool((ratios == 1).all()):
            return node
    return None


def _leaves(node: Any) -> Iterator[torch.Tensor]:
    """Iterate over the leaf tensors of which a node was computed."""
    leaves = (getattr(below, "variable", None) for below in nodes_below([node]))
    return (leaf for leaf in leaves if leaf is not None)


def _first(leaf: torch.Tensor) -> torch.Tensor:
    return leaf.detach().flatten()[:_ELEMENTS]
