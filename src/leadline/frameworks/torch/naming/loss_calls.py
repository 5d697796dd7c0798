"""Which loss call a backward pass began at, and how often that loss was scaled on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

from leadline.frameworks.torch.capture.device_copy import LateNumber, number_of

IGNORE_INDEX: Final = -100
"""What PyTorch's losses leave out unless told otherwise."""
_MOST_HOPS: Final = 8
_KEEPING: Final = frozenset(
    {
        "AliasBackward0",
        "CloneBackward0",
        "MeanBackward0",
        "ReshapeAliasBackward0",
        "SqueezeBackward0",
        "SumBackward0",
        "ToCopyBackward0",
        "UnsafeViewBackward0",
        "UnsqueezeBackward0",
        "ViewBackward0",
    }
)
"""Steps of the graph behind which a loss is still the same loss: of a sum or mean over samples too."""
_CLASS_INDEX: Final = frozenset({"cross_entropy", "nll_loss"})
_BINARY: Final = {"binary_cross_entropy_with_logits": 0.0, "binary_cross_entropy": 0.5}
"""Losses of two classes, and the prediction above which the second is meant."""


@dataclass(frozen=True, slots=True)
class LossName:
    """What the loss of a place in the script is called, settled when it was first seen."""

    name: str | None
    """None: it comes from no loss call, or nobody watched."""
    hops: int
    """How many steps of the graph lie between the loss call's output and what ``backward`` is called on."""


class LossCalls:
    """The loss calls of the step under way, while they are watched."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._sites: dict[object, LossName] = {}

    def clear(self) -> None:
        """A step begins."""
        self._names.clear()

    def note(self, name: str, output: torch.Tensor) -> None:
        """A loss call returned; the innermost of several that return the same is the one that counts."""
        if output.grad_fn is not None:
            self._names.setdefault(output.grad_fn._sequence_nr(), name)

    def settle(self, site: object, node: Any) -> tuple[str | None, float]:
        """The name of the loss call that a backward pass comes straight from, and what it was multiplied by since.

        A place in the script keeps what was found when it was first asked for.

        Args:
            node: The ``grad_fn`` of what ``backward`` was called on.
        """
        known = self._sites.get(site)
        if known is None:
            known = self._sites[site] = self._find(node)
        return known.name, _factor(node, known.hops)

    def _find(self, node: Any) -> LossName:
        for hops in range(_MOST_HOPS):
            if node is None:
                break
            name = self._names.get(node._sequence_nr())
            if name is not None:
                return LossName(name, hops)
            node, _ = _behind(node)
        return LossName(None, 0)


def _factor(node: Any, hops: int) -> float:
    """What a loss was multiplied by on the way to a node; 1 where that cannot be told."""
    found = 1.0
    for _ in range(hops):
        node, by = _behind(node)
        if node is None:
            return 1.0
        found *= by
    return found if found else 1.0


def _behind(node: Any) -> tuple[Any, float]:
    """The one node that this one scales, and by how much; None where it does something else."""
    following = node.next_functions
    alive = [each for each, _ in following if each is not None]
    if len(alive) != 1 or following[0][0] is None:
        return None, 1.0
    kind = node.name()
    if kind in _KEEPING:
        return alive[0], 1.0
    if kind == "NegBackward0":
        return alive[0], -1.0
    if kind in ("MulBackward0", "DivBackward0"):
        by = node._saved_other
        if by is None or by.numel() != 1 or by.device.type != "cpu":
            return None, 1.0
        return alive[0], float(by) if kind == "MulBackward0" else 1.0 / float(by)
    return None, 1.0


def correct_and_total(
    kind: str, predictions: Any, labels: Any, kwargs: Mapping[str, Any]
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """How many samples of a classification loss's call were predicted right, and how many there were.

    Shape:
        predictions: ``(N, C)``, ``(N, C, …)`` or ``(C,)``; of losses of two classes any; labels: ``(N,)``,
        ``(N, …)`` or ``()`` class indices, or like the predictions. Results: ``()``, on the tensors' own device.
    Returns:
        None for a loss that is no classification's: other than cross entropies, or labels between the classes.
    """
    if not isinstance(predictions, torch.Tensor) or not isinstance(labels, torch.Tensor) or not predictions.numel():
        return None
    if kind in _BINARY:
        if labels.shape != predictions.shape:
            return None
        is_hard = ((labels == 0) | (labels == 1)).all()
        right = (predictions > _BINARY[kind]) == (labels > 0.5)
        return right.sum() * is_hard, is_hard * right.numel()
    if kind not in _CLASS_INDEX or not predictions.dim():
        return None
    axis = 0 if predictions.dim() == 1 else 1
    chosen = predictions.argmax(axis)
    if labels.is_floating_point():
        if labels.shape != predictions.shape:
            return None
        return (chosen == labels.argmax(axis)).sum(), torch.tensor(chosen.numel())
    if labels.shape != chosen.shape:
        return None
    counted = labels != kwargs.get("ignore_index", IGNORE_INDEX)
    return ((chosen == labels) & counted).sum(), counted.sum()


def eval_mean(output: torch.Tensor, target: Any, reduction: str) -> LateNumber | float | None:
    """The loss of an eval step as a mean over its samples, comparable to that of training.

    Args:
        reduction: The loss call's own: a sum is divided by the number of targets, single losses are averaged.
    """
    with torch._C.DisableTorchFunction(), torch.no_grad():
        value = number_of(output.detach().double().mean())
        targets: int = target.numel() if reduction == "sum" and isinstance(target, torch.Tensor) else 0
        return value / targets if targets and value is not None else value
