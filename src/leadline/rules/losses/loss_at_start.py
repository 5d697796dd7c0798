"""The rule loss_at_start."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule

if TYPE_CHECKING:
    from leadline.reader.window import TensorReading, Window

_FIRST_LOSSES: Final = 3
"""The number of losses in the mean."""
_CLASSIFIERS: Final = frozenset({"crossentropyloss", "crossentropy", "nllloss"})
_BINARY: Final = frozenset({"bcewithlogitsloss", "bceloss", "binarycrossentropy", "binarycrossentropywithlogits"})
_PART: Final = re.compile(r"^(?P<call>.*)_(?P<side>input|output)_\d+$")


@dataclass(slots=True)
class _Start:
    """The first steps of a worker."""

    classes: dict[str, int] = field(default_factory=dict)
    """The number of classes, by loss call."""
    losses: dict[str, list[TensorReading]] = field(default_factory=dict)


class LossAtStart(Rule, frozen=True, kw_only=True):
    """Fires when a classifier's first losses are far above the loss of guessing.

    Why it matters:
        An untrained classifier of C classes with evenly spread predictions has a cross entropy of ln C. A much
        higher first loss means confident wrong predictions: the first part of the training is spent on unlearning
        them.
    How it decides:
        Fires if ``mean of the first 3 losses > factor * ln C``. C is the size of the class dimension of the logits
        in the loss call (2 for a binary loss), or ``classes``. Only losses from a cross entropy or negative log
        likelihood call are evaluated; with ``classes`` all losses.
    Not a number:
        A loss that is NaN or infinite is not evaluated: undecided.
    Blind spots:
        A loss that is summed over the batch, or with other terms added, is naturally above ln C. A training that
        starts from a checkpoint begins below it in any case. In compiled models the loss call is not visible: set
        ``classes``.
    Args:
        factor: How many times ln C is too much, > 1.
        classes: Number of classes, >= 2; none: taken from the loss call.
    Source:
        Ours; Karpathy, "A Recipe for Training Neural Networks", 2019 (verify loss at init).
    """

    factor: Annotated[float, msgspec.Meta(gt=1)] = 2.0
    classes: Annotated[int, msgspec.Meta(ge=2)] | None = None

    def needs(self) -> Needs:
        logits = TensorNeed("predictions", statistics=("abs_max",), modes=("train",), end=1, is_optional=True)
        return Needs((TensorNeed("losses", statistics=("value",), modes=("train",), end=_FIRST_LOSSES), logits))

    @property
    def least_observations(self) -> int:
        return _FIRST_LOSSES

    def remember(self, memory: Any, window: Window) -> dict[str, _Start]:
        starts: dict[str, _Start] = memory or {}
        for reading in window.readings("abs_max"):
            classes = _classes(reading)
            if classes is not None:
                starts.setdefault(reading.worker, _Start()).classes.setdefault(*classes)
        for reading in window.readings("value"):
            starts.setdefault(reading.worker, _Start()).losses.setdefault(reading.tensor, []).append(reading)
        return starts

    def evaluate(self, window: Window) -> Verdict:
        judged = False
        for reading in window.readings("value"):
            start = window.memory[reading.worker]
            losses = [loss.value for loss in start.losses[reading.tensor]]
            classes = self.classes or _classes_of(reading.tensor, start.classes)
            if len(losses) != _FIRST_LOSSES or classes is None or not math.isfinite(sum(losses)):
                continue
            judged = True
            if sum(losses) / _FIRST_LOSSES > self.factor * math.log(classes):
                return self._fired(reading, sum(losses) / _FIRST_LOSSES, classes)
        if judged:
            return Clear()
        return Undecided("no first three losses of a classifier were captured", stage="too few")

    def _fired(self, reading: TensorReading, mean: float, classes: int) -> Fired:
        guess = math.log(classes)
        return Fired(
            f"{reading.tensor}: mean of the first {_FIRST_LOSSES} losses is {mean:.4g}, {mean / guess:.3g} times that "
            f"of guessing among {classes:,} classes (ln {classes:,} = {guess:.4g})",
            tensors=(reading.tensor,),
            evidence={"mean": mean, "classes": classes, "ln_classes": guess, "factor": self.factor},
            suggestion="a smaller initial weight scale of the last layer (or zeros), and inputs scaled to a standard "
            "deviation of 1; usually the last layer starts too large, or the loss is summed rather than averaged",
            worker=reading.worker,
        )


def _call(tensor: str) -> tuple[str, str]:
    """Return the call of a tensor and its kind: ``head.cross_entropy``, ``crossentropy``."""
    part = _PART.match(tensor)
    call = part["call"] if part else tensor
    return call, re.sub(r"[_\d]", "", call.rpartition(".")[2]).lower()


def _classes(logits: TensorReading) -> tuple[str, int] | None:
    call, kind = _call(logits.tensor)
    if kind in _BINARY:
        return call, 2
    if kind not in _CLASSIFIERS or not logits.shape:
        return None
    classes = logits.shape[0] if len(logits.shape) == 1 else logits.shape[1]
    return (call, classes) if classes >= 2 else None


def _classes_of(loss: str, known: dict[str, int]) -> int | None:
    return known.get(_call(loss)[0])
