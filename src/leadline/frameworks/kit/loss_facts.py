"""Facts about what a loss call is given, computed alike in every framework; see ``leadline.records.loss_facts``."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from typing import Any, Final, Protocol

from leadline.frameworks.kit.array_verbs import ArrayVerbs
from leadline.records import loss_facts as facts
from leadline.records.loss_facts import Activation, LossKind

NO_FACTS: Final = {f"loss/{facts.KIND}": float(LossKind.UNKNOWN)}
"""What is recorded of a step whose loss calls are not known."""
MAX_CALLS: Final = 8
"""Loss calls of a step that facts are captured of."""
_MIN_ROWS: Final = 8
"""Fewer rows of labels may have a single 1 by chance."""
_TOLERANCE: Final = 1e-3
"""Share of an activation's reach by which rounding may take labels beyond it."""
_OF_CLASSES: Final = frozenset({LossKind.NLL, LossKind.KL_DIV, LossKind.CTC})
"""Losses of probabilities, or their logarithms, over classes, which are taken as they are given."""


class PredictionTrace(Protocol):
    """What lies between a loss and the layer before it."""

    activation: Activation
    inner: Activation
    is_rescaled: bool
    has_dropout: bool


def unused_name(stem: str, taken: Container[str]) -> str:
    """Return a name for a loss call: its stem, or ``<stem>_1``, ``<stem>_2`` …"""
    name, number = stem, 0
    while name in taken:
        number += 1
        name = f"{stem}_{number}"
    return name


def traced_facts(kind: LossKind, trace: PredictionTrace) -> dict[str, float]:
    """Return the facts of a loss call that a trace gives."""
    return {
        facts.KIND: float(kind),
        facts.ACTIVATION: float(trace.activation),
        facts.INNER_ACTIVATION: float(trace.inner),
        facts.IS_RESCALED: float(trace.is_rescaled),
        facts.HAS_DROPOUT: float(trace.has_dropout),
    }


def label_facts(
    verbs: ArrayVerbs, labels: Any, kind: LossKind, activation: Activation, *, has_classes: bool
) -> dict[str, Any]:
    """Return the facts about labels that are numbers.

    Shape:
        labels: ``(samples, *)``, not empty; with classes ``(samples, classes, *)``.

    Args:
        activation: The last one between the model and the loss.
        has_classes: Whether dimension 1 is one of several classes.
    """
    labels = verbs.floats(labels)
    is_binary = verbs.every((labels == 0) | (labels == 1))
    found = {
        facts.LABEL_MIN: verbs.min(labels),
        facts.LABEL_MAX: verbs.max(labels),
        facts.ARE_LABELS_BINARY: is_binary,
        facts.ARE_LABELS_WHOLE: verbs.every(labels == verbs.floor(labels)),
    }
    if has_classes:
        sums = verbs.sum(labels, 1)
        are_enough = verbs.count(sums) >= _MIN_ROWS
        found[facts.ONE_HOT_SHARE] = verbs.given(are_enough, verbs.share(sums == 1) * is_binary)
        found[facts.MULTI_HOT_SHARE] = verbs.given(are_enough, verbs.share(sums > 1) * is_binary)
    reach = facts.reach(activation)
    if reach is not None and kind in facts.REGRESSION:
        width = reach[1] - reach[0]
        margin = _TOLERANCE * (width if math.isfinite(width) else 1.0)
        found[facts.OUT_OF_REACH_SHARE] = verbs.share((labels < reach[0] - margin) | (labels > reach[1] + margin))
    return {fact: number for fact, number in found.items() if number is not None}


def is_outer(labels: Sequence[int | None], predictions: Sequence[int | None]) -> bool:
    """Return whether the dimension of the batch of one shape is compared with another dimension of the other."""
    if len(labels) == len(predictions) or not labels or not predictions:
        return False
    short, long = sorted((labels, predictions), key=len)
    return short[0] != 1 and long[len(long) - len(short)] == 1


def repeats_of_labels(labels: Sequence[int | None], predictions: Sequence[int | None]) -> int:
    """Return with how many predictions of its sample each label is compared."""
    if len(labels) != len(predictions):
        return 1
    return math.prod(size or 1 for label, size in zip(labels[1:], predictions[1:], strict=True) if label == 1)


def probability_facts(verbs: ArrayVerbs, predictions: Any, kind: LossKind, axis: int) -> dict[str, Any]:
    """Return how far predictions are from being probabilities, or log-probabilities, of classes.

    Args:
        axis: That of the classes; of sequences it is the last one.

    Returns:
        Nothing for losses that are not given either.
    """
    if kind not in _OF_CLASSES:
        return {}
    predictions = verbs.floats(predictions)
    axis = -1 if kind is LossKind.CTC else axis
    return {
        facts.SUM_ERROR: verbs.max(abs(verbs.sum(predictions, axis) - 1)),
        facts.EXP_SUM_ERROR: verbs.max(abs(verbs.sum(verbs.exp(predictions), axis) - 1)),
        facts.PREDICTION_MIN: verbs.min(predictions),
    }
