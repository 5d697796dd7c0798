"""Association of backward passes with loss calls, and the factor by which the loss was scaled between them."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

from leadline.frameworks.torch.capture.autograd_graph import VIEWS
from leadline.frameworks.torch.capture.device_copy import DeviceScalar, number_of
from leadline.frameworks.torch.naming.model_names import unwrap

IGNORE_INDEX: Final = -100
"""Default label that PyTorch's losses ignore."""
_MAX_HOPS: Final = 8
_MAX_TERMS: Final = 32
"""Graph nodes of a sum that are looked at for losses."""
_MAX_OUTPUTS: Final = 16
_MAX_LABELS: Final = 64
"""Loss calls of a step whose labels are kept."""
OutputPlace = str | int | None
"""Where a model's output holds a tensor: a key or position; None: it is that tensor."""
_PRESERVING_NODES: Final = VIEWS | {"MeanBackward0", "SumBackward0"}
"""Graph nodes that keep a loss the same loss, including sums and means over samples."""
_MEAN, _SUM = 1, 2
"""Codes of reductions, as graph nodes save them."""
_CLASS_INDEX: Final = frozenset({"cross_entropy", "nll_loss"})
_BINARY: Final = {"binary_cross_entropy_with_logits": 0.0, "binary_cross_entropy": 0.5}
"""Losses with two classes, and the threshold above which a prediction means the second class."""


@dataclass(frozen=True, slots=True)
class LossName:
    """Name of the loss at a call site in the script, determined when it is first seen."""

    name: str | None
    """None: no loss call was observed."""
    hops: int
    """Number of graph nodes between the loss call's output and the tensor that ``backward`` is called on."""


@dataclass(slots=True)
class LossWay:
    """The way of a loss from its loss call to a backward pass."""

    name: str
    is_sum: bool
    """Whether the losses of samples are added up, not averaged."""
    is_scaled: bool
    """Whether it is multiplied or divided by a number."""
    passes: int = 1
    """The backward passes of a step that begin at the same place."""


class LossCalls:
    """Loss calls observed in the current step."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._labels: dict[str, torch.Tensor] = {}
        self.given: tuple[torch.nn.Module, dict[str, torch.Tensor]] | None = None
        """The latest model that was given labels by name, with the tensors that it was given by name."""
        self.has_cached = False
        """Whether its output holds the keys and values of its attention."""
        self.calls_without_gradients = 0
        """How often models were called without gradients, as far as that is observed: in the first two steps."""
        self.keeps_labels = True
        """Whether the labels of the calls are kept until the end of the step."""
        self._sites: dict[object, LossName] = {}
        self._outputs: dict[int, tuple[weakref.ref[torch.nn.Module], OutputPlace]] = {}
        """The numbers that models returned, by graph node."""
        self._own: weakref.WeakKeyDictionary[torch.nn.Module, dict[OutputPlace, str]] = weakref.WeakKeyDictionary()
        """The losses that models and criteria return: what backward was called on, or a term of it."""
        self._called: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        """The models that were called with gradients in this step."""
        self._otherwise: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        """Those of which backward was called on something that does not follow from any number that they returned."""

    def clear(self) -> None:
        """Clear the calls at the start of a step."""
        self._names.clear()
        self._outputs.clear()
        self._called.clear()
        self._labels.clear()
        self.given = None

    def add_given(self, model: torch.nn.Module, kwargs: Mapping[str, Any], output: Any) -> None:
        """Add what a model was given by name, with its labels."""
        self.given = model, {name: value for name, value in kwargs.items() if isinstance(value, torch.Tensor)}
        self.has_cached = isinstance(output, Mapping) and output.get("past_key_values") is not None

    def add_output(self, model: torch.nn.Module, place: OutputPlace, name: str, output: torch.Tensor) -> None:
        """Add a number that a model returned, which may be its loss."""
        self.add(name, output)
        if output.grad_fn is not None:
            self._outputs[output.grad_fn._sequence_nr()] = weakref.ref(model), place

    def add_called(self, model: torch.nn.Module) -> None:
        """Add a model that was called with gradients, ahead of what it returned."""
        self._called.add(model)

    def may_train_by(self, model: torch.nn.Module, place: OutputPlace) -> bool:
        """Return whether what a model returns as its loss may be what it is trained by, as far as was seen."""
        return place == "loss" and model not in self._otherwise

    def own_name(self, model: torch.nn.Module, place: OutputPlace) -> str | None:
        """Return the name of the loss that a model returns at a place; None: backward was never called on it."""
        return self._own.get(model, {}).get(place)

    def returns_loss(self, module: torch.nn.Module) -> bool:
        """Return whether backward was called on a number that a module returned."""
        return unwrap(module) in self._own

    def add(self, name: str, output: torch.Tensor, labels: Any = None) -> None:
        """Add a loss call that returned; of several that return the same tensor the innermost counts."""
        if output.grad_fn is not None:
            self._names.setdefault(output.grad_fn._sequence_nr(), name)
            if (
                self.keeps_labels
                and len(self._labels) < _MAX_LABELS
                and isinstance(labels, torch.Tensor)
                and not labels.requires_grad
            ):
                self._labels[name] = labels

    def labels_of(self, name: str) -> torch.Tensor | None:
        """Return the labels that a loss call was given in this step; None: not known, or not kept."""
        return self._labels.get(name)

    def name_of(self, node: Any) -> str | None:
        """Return the name of the loss call whose output a node has computed; None if none was observed."""
        return self._names.get(node._sequence_nr())

    def resolve(self, site: object, node: Callable[[], Any]) -> tuple[str | None, float]:
        """Return the name of the loss call that a backward pass starts from, and the factor applied since.

        The first result for a call site in the script is kept for later calls.

        Args:
            node: Returns the ``grad_fn`` of the tensor that ``backward`` was called on.
        """
        loss = self._sites.get(site)
        if loss is None:
            loss = self._sites[site] = self._find(node())
            self._note_otherwise(node())
        return loss.name, _factor(node(), loss.hops) if loss.hops else 1.0

    def is_direct(self, site: object) -> bool:
        """Return whether the backward passes of a place start from the output of a loss call, or from no known one."""
        loss = self._sites.get(site)
        return loss is not None and not loss.hops

    def way(self, node: Any) -> LossWay | None:
        """Return how a loss call became what a node computes; None: no loss call was observed."""
        is_sum = is_scaled = False
        for _ in range(_MAX_HOPS):
            if node is None:
                break
            name = self.name_of(node)
            if name is not None:
                is_sum |= getattr(node, "_saved_reduction", _MEAN) == _SUM
                return LossWay(name, is_sum, is_scaled)
            is_sum |= node.name() == "SumBackward0"
            node, factor = _scaled_input(node)
            is_scaled |= factor != 1.0
        return None

    def _find(self, node: Any) -> LossName:
        for hops in range(_MAX_HOPS):
            if node is None:
                break
            name = self.name_of(node)
            if name is not None:
                self._note_own(node, name)
                return LossName(name, hops)
            following, _ = _scaled_input(node)
            if following is None:
                self._note_terms(node)
            node = following
        return LossName(None, 0)

    def _note_terms(self, node: Any) -> None:
        """Note the terms of a sum that are what a model returned, such as a criterion beside a regularization."""
        pending = [node]
        for _ in range(_MAX_TERMS):
            if not pending:
                break
            term = pending.pop()
            if (name := self.name_of(term)) is not None:
                self._note_own(term, name)
            elif term.name() == "AddBackward0":
                pending += [parent for parent, _ in term.next_functions if parent is not None]
            elif (scaled := _scaled_input(term)[0]) is not None:
                pending.append(scaled)

    def _note_otherwise(self, node: Any) -> None:
        """Note the models of this step that return nothing that a backward pass starts from or leads to."""
        returned: dict[torch.nn.Module, list[int]] = {}
        for number, (reference, _) in self._outputs.items():
            if (model := reference()) is not None:
                returned.setdefault(model, []).append(number)
        for model in self._called:
            if model in self._own or any(_leads_to(node, number) for number in returned.get(model, ())):
                self._otherwise.discard(model)
            else:
                self._otherwise.add(model)

    def _note_own(self, node: Any, name: str) -> None:
        """Note that a loss is what a model returned, if it is."""
        reference, place = self._outputs.get(node._sequence_nr(), (None, None))
        model = reference() if reference is not None else None
        if model is not None:
            self._own.setdefault(model, {})[place] = name


def _leads_to(node: Any, number: int) -> bool:
    """Return whether a graph leads from a node to the one with a sequence number: those on the way have higher ones."""
    seen: set[int] = set()
    pending = [node]
    while pending:
        current = pending.pop()
        if current is None or current._sequence_nr() < number or current._sequence_nr() in seen:
            continue
        if current._sequence_nr() == number:
            return True
        seen.add(current._sequence_nr())
        pending += [parent for parent, _ in current.next_functions]
    return False


def _factor(node: Any, hops: int) -> float:
    """Return the factor applied to a loss on the way to a node; 1 if unknown, or if it has made the loss infinite."""
    product = 1.0
    for _ in range(hops):
        node, factor = _scaled_input(node)
        if node is None:
            return 1.0
        product *= factor
    return product if product and math.isfinite(product) else 1.0


def _scaled_input(node: Any) -> tuple[Any, float]:
    """Return the single node that this node scales, and the factor; None if it does something else."""
    following = node.next_functions
    inputs = [parent for parent, _ in following if parent is not None]
    if len(inputs) != 1 or following[0][0] is None:
        return None, 1.0
    kind = node.name()
    if kind in _PRESERVING_NODES:
        return inputs[0], 1.0
    if kind == "NegBackward0":
        return inputs[0], -1.0
    if kind in ("MulBackward0", "DivBackward0"):
        factor = node._saved_other
        if factor is None or factor.numel() != 1 or factor.device.type != "cpu":
            return None, 1.0
        number = factor.item()
        if isinstance(number, complex):
            return None, 1.0
        if kind == "DivBackward0":
            number = 1.0 / number if number else math.inf  # a mean over no element
        return inputs[0], float(number)
    return None, 1.0


def correct_and_total(
    kind: str, predictions: Any, labels: Any, kwargs: Mapping[str, Any]
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Count the correctly predicted samples of a classification loss call, and all samples.

    Shape:
        predictions: ``(N, C)``, ``(N, C, …)`` or ``(C,)``; any shape for losses with two classes; labels: class indices
        ``(N,)``, ``(N, …)`` or ``()``, or shaped like the predictions. Results: ``()``, on the tensors' device.
    Returns:
        None if the loss is not a cross entropy, or its labels are soft.
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


def eval_mean(output: torch.Tensor, target: Any, reduction: str) -> DeviceScalar | float | None:
    """Return the loss of an eval step as a mean over its samples, comparable to the training loss.

    Args:
        reduction: That of the loss call: a sum is divided by the number of targets, single losses are averaged.
    """
    with torch._C.DisableTorchFunction(), torch.no_grad():
        value = number_of(output.detach().double().mean())
        targets: int = target.numel() if reduction == "sum" and isinstance(target, torch.Tensor) else 0
        return value / targets if targets and value is not None else value


def numbers_of(output: Any) -> Iterator[tuple[OutputPlace, torch.Tensor]]:
    """Yield the single numbers that a model returns, of which one may be its loss, with their places."""
    values: Iterable[tuple[OutputPlace, Any]] = ((None, output),)
    if isinstance(output, Mapping):
        values = output.items()
    elif isinstance(output, (tuple, list)):
        values = enumerate(output[:_MAX_OUTPUTS])
    for place, value in values:
        if isinstance(value, torch.Tensor) and value.numel() == 1 and value.is_floating_point() and not value.is_meta:
            yield place, value
