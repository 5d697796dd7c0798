"""The loss calls that the tensor of a backward pass was computed from, those written by hand included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch

from leadline.frameworks.torch.capture.activation_trace import ActivationTrace, below_clamp, is_normalization
from leadline.frameworks.torch.capture.autograd_graph import (
    VIEWS,
    Edge,
    below_views,
    blanks_of,
    first_rows,
    ignored_of,
    inputs_of,
    kind_of,
    saved,
    shape_of,
    signed_inputs,
    sizes_of,
)
from leadline.frameworks.torch.capture.moving_labels import are_moving
from leadline.frameworks.torch.capture.own_weights import is_weighted_by_its_mean
from leadline.frameworks.torch.capture.poisson_loss import poisson_of
from leadline.records.loss_facts import LossKind

_MAX_NODES: Final = 96
_MAX_TERMS: Final = 8
_LIBRARY: Final = {
    "BinaryCrossEntropyBackward0": LossKind.BINARY_CROSS_ENTROPY,
    "BinaryCrossEntropyWithLogitsBackward0": LossKind.BINARY_CROSS_ENTROPY_WITH_LOGITS,
    "CtcLossBackward0": LossKind.CTC,
    "CudnnCtcLossBackward0": LossKind.CTC,
    "HuberLossBackward0": LossKind.SMOOTH_ABSOLUTE_ERROR,
    "MseLossBackward0": LossKind.SQUARED_ERROR,
    "NllLoss2DBackward0": LossKind.NLL,
    "NllLossBackward0": LossKind.NLL,
    "SmoothL1LossBackward0": LossKind.SMOOTH_ABSOLUTE_ERROR,
    "SoftMarginLossBackward0": LossKind.SOFT_MARGIN,
}
_SYMMETRIC: Final = frozenset({LossKind.SQUARED_ERROR, LossKind.SMOOTH_ABSOLUTE_ERROR})
"""Losses that do not change when predictions and labels are swapped."""
_EXPRESSION: Final = VIEWS | {
    "AddBackward0",
    "AddBackward1",
    "CatBackward0",
    "ClampBackward0",
    "ClampBackward1",
    "ClampMaxBackward0",
    "ClampMinBackward0",
    "DivBackward0",
    "DivBackward1",
    "ExpandBackward0",
    "GatherBackward0",
    "IndexBackward0",
    "MaskedFillBackward0",
    "MaskedSelectBackward0",
    "MeanBackward0",
    "MeanBackward1",
    "MulBackward0",
    "MulBackward1",
    "NansumBackward0",
    "NegBackward0",
    "PowBackward0",
    "RsubBackward1",
    "SelectBackward0",
    "SliceBackward0",
    "SqrtBackward0",
    "StackBackward0",
    "SubBackward0",
    "SubBackward1",
    "SumBackward0",
    "SumBackward1",
    "WhereBackward0",
}
"""Nodes by which a loss is reduced, weighted, masked, and added to others."""
_ONE_MINUS: Final = frozenset({"RsubBackward1", "SubBackward0"})
_ERRORS: Final = {"AbsBackward0": LossKind.ABSOLUTE_ERROR, "PowBackward0": LossKind.SQUARED_ERROR}
_LOGARITHMS: Final = frozenset({"LogBackward0", "Log1PBackward0", "LogSigmoidBackward0", "LogSoftmaxBackward0"})


@dataclass(slots=True)
class LossTerm:
    """One loss call."""

    kind: LossKind
    predictions: Edge
    trace: ActivationTrace
    """Begins at the predictions."""
    prediction_values: torch.Tensor | None = None
    labels: torch.Tensor | None = None
    """None where they are class indices, not known, or depend on parameters as well."""
    are_labels_judged: bool = True
    """Whether the numbers are labels for certain, and not weights."""
    is_broadcast: bool = False
    is_swapped: bool = False
    blanks: torch.Tensor | None = None
    """Whether each label of a CTC loss is its blank."""
    ignored: tuple[int, torch.Tensor] | None = None
    """The class index that the loss ignores, and whether each label is this index."""
    likelihood: Any = None
    """The node of a negative log-likelihood of class indices."""
    has_moving_labels: bool | None = None
    """Whether labels with a gradient look like a bootstrapped target; None: they have none."""
    sign: int = 0
    """-1 if the negative of this call is minimized; 0: not known."""
    is_weighted_by_its_mean: bool = False
    """Whether its mean is multiplied by a function of its own exponential."""


@dataclass(slots=True)
class _Logarithm:
    """A logarithm of probabilities that a script computes itself."""

    edge: Edge
    probabilities: Edge
    is_complement: bool
    """Whether it is the logarithm of one minus the probabilities."""
    labels: torch.Tensor | None


class LossTerms:
    """Finds the loss calls in the expression of a loss.

    Args:
        name_of: Returns the name of the loss call whose output a node has computed, if that was observed.
        labels_of: Returns the labels that a loss call was given, if they were observed.
    """

    def __init__(self, name_of: Callable[[Any], str | None], labels_of: Callable[[str], torch.Tensor | None]) -> None:
        self._name_of, self._labels_of = name_of, labels_of
        self._terms: list[LossTerm] = []
        self._logarithms: list[_Logarithm] = []

    def find(self, root: Any) -> list[LossTerm]:
        """Return the loss calls below a node, at most 8; of a graph without known ones none."""
        pending: list[tuple[Edge, str, int, bool]] = [((root, 0), "", 1, False)]
        seen: set[Any] = set()
        while pending and len(seen) < _MAX_NODES and len(self._terms) < _MAX_TERMS:
            edge, call, sign, is_weighted = pending.pop()
            if edge[0] in seen:
                continue
            seen.add(edge[0])
            call = self._name_of(edge[0]) or call
            is_weighted = is_weighted or is_weighted_by_its_mean(edge[0])
            count = len(self._terms)
            if not self._add(edge, call):
                inputs = reversed(signed_inputs(edge[0]))
                pending += [(parent, call, sign * side, is_weighted) for parent, side in inputs]
            elif self._terms and kind_of(edge[0]) in _LIBRARY:
                self._terms[-1].sign = sign
            for term in self._terms[count:]:
                term.is_weighted_by_its_mean = is_weighted
        self._add_logarithms()
        return self._terms

    def _add(self, edge: Edge, call: str) -> bool:
        """Add the loss call that a node is; return whether nothing below the node is looked at."""
        node, kind = edge[0], kind_of(edge[0])
        if kind in _LIBRARY:
            self._add_library_call(node, _LIBRARY[kind])
            return True
        if kind == "SoftmaxBackward0":
            self._terms.append(LossTerm(LossKind.OTHER, edge, ActivationTrace().follow(edge)))
            return True
        if kind in _LOGARITHMS:
            self._add_logarithm(edge, labels=None)
            return kind != "LogBackward0" or not _is_of_loss(edge)
        if kind == "MulBackward0" and self._add_product(node, call):
            return True
        poisson = poisson_of(node)
        if poisson is not None:
            self._terms.append(LossTerm(*poisson, ActivationTrace().follow(poisson[1])))
            return True
        error = _error_of(node, kind)
        if error is not None:
            return self._add_error(node, error, call)
        if kind == "SubBackward0" and len(inputs := inputs_of(node)) == 1 and _is_outer(inputs[0], shape_of(edge)):
            trace = ActivationTrace().follow(inputs[0])  # a function of the error that is not known here
            self._terms.append(LossTerm(LossKind.OTHER, inputs[0], trace, is_broadcast=True))
            return True
        return kind not in _EXPRESSION

    def _add_library_call(self, node: Any, kind: LossKind) -> None:
        first, second = (*node.next_functions, (None, 0))[:2]
        values, labels = saved(node, "self"), saved(node, "target")
        if kind is LossKind.CTC:
            trace = ActivationTrace().follow(first)
            given = saved(node, "log_probs")
            self._terms.append(LossTerm(kind, first, trace, prediction_values=given, blanks=blanks_of(node)))
            return
        if kind is LossKind.NLL:
            self._add_nll(first, values)
            self._terms[-1].ignored, self._terms[-1].likelihood = ignored_of(node), node
            return
        is_swapped = first[0] is None and second[0] is not None
        if is_swapped and kind in _SYMMETRIC:
            first, second, values, labels, is_swapped = second, first, labels, values, False
        predictions = second if is_swapped else first
        self._terms.append(
            LossTerm(
                kind,
                predictions,
                ActivationTrace().follow(predictions),
                prediction_values=values,
                labels=labels if second[0] is None else None,
                is_broadcast=kind in _SYMMETRIC and _is_outer(first, shape_of(first)) and _is_expanded(labels),
                is_swapped=is_swapped,
                has_moving_labels=are_moving(first, second) if kind in _SYMMETRIC and first[0] and second[0] else None,
            )
        )

    def _add_nll(self, given: Edge, values: torch.Tensor | None) -> None:
        inner = below_views(given)
        if inner[0] is not None and kind_of(inner[0]) == "LogSoftmaxBackward0":
            self._add_cross_entropy(inner, labels=None)
        elif (probabilities := _normalized(inner)) is not None:
            self._add_categorical(probabilities, labels=None)
        else:
            trace = ActivationTrace().follow(given)
            self._terms.append(LossTerm(LossKind.NLL, given, trace, prediction_values=values))

    def _add_cross_entropy(self, log_softmax: Edge, labels: torch.Tensor | None, *, are_judged: bool = True) -> None:
        trace = ActivationTrace()
        trace.add_softmax(log_softmax)
        predictions = next(iter(inputs_of(log_softmax[0])), (None, 0))
        if predictions[0] is not None:
            trace.follow(predictions)
        self._terms.append(
            LossTerm(LossKind.CROSS_ENTROPY, log_softmax, trace, labels=labels, are_labels_judged=are_judged)
        )

    def _add_categorical(self, probabilities: Edge, labels: torch.Tensor | None) -> None:
        """Add a cross entropy of values that it divides by their sum over the classes."""
        trace = ActivationTrace().follow(probabilities)
        self._terms.append(LossTerm(LossKind.CATEGORICAL_CROSS_ENTROPY, probabilities, trace, labels=labels))

    def _add_error(self, node: Any, kind: LossKind, call: str) -> bool:
        """Add a squared or absolute difference between predictions and constants."""
        edge = below_views(inputs_of(node)[0])
        if edge[0] is None or kind_of(edge[0]) != "SubBackward0":
            return kind is LossKind.ABSOLUTE_ERROR
        inputs = inputs_of(edge[0])
        if len(inputs) == 2:
            self._add_moving_difference(kind, inputs)
        if len(inputs) != 1:
            return True
        trace = ActivationTrace().follow(inputs[0])
        difference = saved(node, "self")
        labels = _labels_of(difference, trace, is_minuend=edge[0].next_functions[0][0] is not None)
        given = self._labels_of(call)
        if labels is None and given is not None and tuple(given.shape) == shape_of(inputs[0]):
            labels = given.detach()
        is_broadcast = _is_outer(inputs[0], shape_of(edge))
        self._terms.append(LossTerm(kind, inputs[0], trace, labels=labels, is_broadcast=is_broadcast))
        return True

    def _add_moving_difference(self, kind: LossKind, sides: list[Edge]) -> None:
        """Add the error of a difference of two tensors with gradients, if one of them looks like a moving target."""
        for predictions, labels in (sides, sides[::-1]):
            if are_moving(predictions, labels):
                trace = ActivationTrace().follow(predictions)
                self._terms.append(LossTerm(kind, predictions, trace, has_moving_labels=True))

    def _add_product(self, node: Any, call: str) -> bool:
        """Add a product of constants, which may be labels, and log-probabilities."""
        inputs = inputs_of(node)
        if len(inputs) != 1:
            return False
        is_first = node.next_functions[0][0] is not None
        labels = saved(node, "other" if is_first else "self")
        if _is_kl_div(call):
            trace = ActivationTrace().follow(inputs[0])
            self._terms.append(LossTerm(LossKind.KL_DIV, inputs[0], trace, labels=labels))
            return True
        edge = below_views(inputs[0])
        kind = kind_of(edge[0]) if edge[0] is not None else ""
        if kind == "LogSoftmaxBackward0" and labels is not None and labels.dim():
            self._add_cross_entropy(edge, labels, are_judged=_is_cross_entropy(call))
            return True
        if kind == "LogBackward0" and labels is not None and labels.dim() and not _is_of_loss(edge):
            self._add_logarithm(edge, labels)
            return True
        return False

    def _add_logarithm(self, edge: Edge, labels: torch.Tensor | None) -> None:
        kind = kind_of(edge[0])
        if kind == "LogSoftmaxBackward0":
            self._add_cross_entropy(edge, labels, are_judged=False)
        elif kind == "LogSigmoidBackward0":
            logits = edge[0].next_functions[0]
            trace = ActivationTrace().follow(logits)
            self._terms.append(LossTerm(LossKind.BINARY_CROSS_ENTROPY_WITH_LOGITS, logits, trace))
        elif not _is_of_loss(edge):
            probabilities, is_complement = _probabilities(edge[0])
            self._logarithms.append(_Logarithm(edge, probabilities, is_complement, labels))

    def _add_logarithms(self) -> None:
        """Add the logarithms: those of the same probabilities and of one minus them are a binary cross entropy."""
        complements = {part.probabilities for part in self._logarithms if part.is_complement}
        for part in self._logarithms:
            if part.is_complement or len(self._terms) >= _MAX_TERMS:
                continue
            if (normalized := _normalized(part.edge)) is not None:
                self._add_categorical(normalized, part.labels)
                continue
            is_binary = part.probabilities in complements and part.labels is not None
            trace = ActivationTrace().follow(part.probabilities if is_binary else part.edge)
            kind = LossKind.BINARY_CROSS_ENTROPY if is_binary else LossKind.LOG_LIKELIHOOD
            self._terms.append(LossTerm(kind, part.probabilities, trace, labels=part.labels))


def _normalized(logarithm: Edge) -> Edge | None:
    """Return the values of which a logarithm is taken after a division by their sum over the classes; None: others."""
    if logarithm[0] is None or kind_of(logarithm[0]) != "LogBackward0":
        return None
    edge = below_clamp(logarithm[0].next_functions[0])
    return edge if edge[0] is not None and is_normalization(edge[0]) else None


def _is_kl_div(call: str) -> bool:
    return call.replace("_", "").lower().removeprefix("nn").rpartition(".")[2].startswith("kldiv")


def _is_cross_entropy(call: str) -> bool:
    return call.replace("_", "").lower().rpartition(".")[2].startswith("crossentropy")


def _error_of(node: Any, kind: str) -> LossKind | None:
    """Return the error that a node may compute from a difference."""
    inputs = inputs_of(node)
    if kind == "MulBackward0":
        is_square = len(inputs) == 2 and inputs[0] == inputs[1]
        return LossKind.SQUARED_ERROR if is_square else None
    if kind == "PowBackward0" and getattr(node, "_saved_exponent", None) != 2:
        return None
    return _ERRORS.get(kind)


def _labels_of(difference: torch.Tensor | None, trace: ActivationTrace, *, is_minuend: bool) -> torch.Tensor | None:
    """Return the labels from their difference to predictions, which are known only as the result of an activation."""
    predictions = trace.result
    if difference is None or predictions is None or predictions.shape != difference.shape or not difference.dim():
        return None
    predictions, difference = first_rows(predictions), first_rows(difference)
    with torch.no_grad():
        return predictions - difference if is_minuend else predictions + difference


def _probabilities(logarithm: Any) -> tuple[Edge, bool]:
    """Return the probabilities whose logarithm a node is, and whether it is that of one minus them."""
    is_complement = kind_of(logarithm) == "Log1PBackward0"
    edge: Edge = logarithm.next_functions[0]
    while edge[0] is not None and len(inputs_of(edge[0])) == 1:
        kind = kind_of(edge[0])
        if (kind in _ONE_MINUS and edge[0].next_functions[0][0] is None) or kind == "RsubBackward1":
            is_complement = True
        elif kind not in VIEWS and not kind.startswith(("Add", "Sub", "Clamp", "Neg")):
            break
        edge = inputs_of(edge[0])[0]
    return edge, is_complement


def _is_of_loss(edge: Edge) -> bool:
    """Whether the logarithm of a loss is taken, not that of probabilities."""
    inner = below_views(edge[0].next_functions[0])
    kind = kind_of(inner[0]) if inner[0] is not None else ""
    return kind in _LIBRARY or kind.startswith(("Mean", "Sum"))


def _is_outer(edge: Edge, result: tuple[int, ...] | None) -> bool:
    """Whether N predictions, one for each sample, are expanded to N x N; other dimensions are of size 1."""
    node = edge[0]
    sizes = [size for size in result or () if size != 1]
    if node is None or len(sizes) != 2 or sizes[0] != sizes[1] or sizes[0] < 2:
        return False
    own = shape_of(edge)
    if kind_of(node) == "ExpandBackward0":
        own, node = sizes_of(node, "self"), node.next_functions[0][0]
    if own is None or own[:1] != (sizes[0],) or any(size != 1 for size in own[1:]) or node is None:
        return False
    return kind_of(node) not in ("IndexBackward0", "UnsqueezeBackward0", "ViewBackward0") or _is_layer_output(node, own)


def _is_layer_output(node: Any, own: tuple[int, ...]) -> bool:
    """Whether a view drops the dimension of a layer's single output or is part of the layer; others may make pairs."""
    if kind_of(node) != "ViewBackward0":
        return False
    viewed = node.next_functions[0][0]
    return len(own) == 1 or (viewed is not None and kind_of(viewed) in ("AddmmBackward0", "MmBackward0"))


def _is_expanded(labels: torch.Tensor | None) -> bool:
    """Whether labels were expanded, as far as that is known."""
    return labels is None or 0 in labels.stride()
