"""The loss of guessing, from the shapes and labels of a loss call."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Final

from leadline.records.formatting import significant
from leadline.records.loss_facts import ACCUMULATION, BACKWARD_PASSES, FACT_STEPS, IS_SCALED, IS_SUM, IS_WHOLE_LOSS
from leadline.records.names import CHECKS
from leadline.rules import TensorNeed, TensorReading

_CLASSES: Final = frozenset({"crossentropyloss", "crossentropy", "nllloss"})
_CLASSES_LAST: Final = frozenset({"categoricalcrossentropy", "sparsecategoricalcrossentropy"})
"""Losses of Keras, for which the classes are the last dimension."""
_BINARY: Final = frozenset({"bcewithlogitsloss", "bceloss", "binarycrossentropy", "binarycrossentropywithlogits"})
_SQUARED: Final = frozenset({"mseloss", "meansquarederror"})
_ABSOLUTE: Final = frozenset({"l1loss", "smoothl1loss", "huberloss", "meanabsoluteerror", "huber", "logcosh"})
_OF_LABELS: Final = _CLASSES | _CLASSES_LAST | _BINARY | _SQUARED | _ABSOLUTE
_PART: Final = re.compile(r"^(?P<call>.*)_(?:input|output)_\d+$")
_REPETITION: Final = re.compile(r"_\d+$")


@dataclass(frozen=True, slots=True)
class Guess:
    """The loss of a model that knows nothing."""

    loss: float
    labels: int
    """The number of labels in a call, over which a loss may be summed; 0: unknown."""
    words: str
    """``among 10 classes (ln 10 = 2.303)``."""
    classes: int = 0
    """0: a regression."""
    power: int = 1
    """The power of an error in the loss."""
    error: float = 0.0
    """The standard error of the loss as that of one batch of labels, for labels of a normal distribution."""


@dataclass(slots=True)
class LossCall:
    """What is known of the inputs of a loss call."""

    predictions: tuple[int, ...] = ()
    labels: int = 0
    """The number of labels."""
    samples: int = 1
    """The number of samples, of which each has as many labels."""
    statistics: dict[str, float] = field(default_factory=dict)
    """Statistics of the labels."""

    @staticmethod
    def note(calls: MutableMapping[str, LossCall], reading: TensorReading) -> None:
        """Add a reading of predictions or labels to the loss calls by name; the first one of each counts."""
        call = calls.setdefault(call_name(reading.tensor), LossCall())
        if "predictions" in reading.collections:
            call.predictions = call.predictions or reading.shape
        elif "labels" in reading.collections and math.isfinite(reading.value):
            if not call.labels:
                call.labels, call.samples = reading.elements, next(iter(reading.shape), 1)
            call.statistics.setdefault(reading.statistic, reading.value)

    def mean_square(self) -> float | None:
        """Return the mean of the squared labels; None: not known."""
        if not {"mean", "variance"} <= set(self.statistics):
            return None
        return self.statistics["variance"] + self.statistics["mean"] ** 2

    def error(self, power: int) -> float:
        """Return the standard error of the mean of the labels' absolute values, or squares, for a normal distribution.

        Args:
            power: 1: of absolute values; 2: of squares.
        """
        mean, variance = self.statistics.get("mean", 0.0), max(self.statistics.get("variance", 0.0), 0.0)
        deviation = math.sqrt(2 * variance**2 + 4 * mean**2 * variance if power > 1 else variance)
        return deviation / math.sqrt(max(self.samples, 1))


@dataclass(frozen=True, slots=True)
class Accumulation:
    """How a loss becomes a gradient; see ``leadline.records.loss_facts``."""

    passes: int = 1
    is_sum: bool = False
    is_scaled: bool = False

    @property
    def is_weighted_sum(self) -> bool:
        """Whether several parts of a batch are added up, each with as many labels as it happens to have."""
        return self.is_sum and self.passes > 1

    @staticmethod
    def note(known: MutableMapping[tuple[str, str], Accumulation], readings: Iterable[TensorReading]) -> None:
        """Add those of the losses of a step, by worker and name of the loss."""
        found: dict[tuple[str, str], dict[str, float]] = {}
        for reading in readings:
            loss, _, fact = reading.tensor.rpartition("/")
            if fact in ACCUMULATION:
                found.setdefault((reading.worker, loss), {})[fact] = reading.value
        for key, numbers in found.items():
            passes = int(numbers.get(BACKWARD_PASSES, 1.0))
            known[key] = Accumulation(passes, numbers.get(IS_SUM) == 1.0, numbers.get(IS_SCALED) == 1.0)


ACCUMULATION_NEED: Final = TensorNeed(
    CHECKS,
    regex=f"/({'|'.join(ACCUMULATION)})$",
    statistics=("value",),
    modes=("train",),
    end=FACT_STEPS,
    is_optional=True,
)
"""The need of a rule that uses ``Accumulation``."""
WHOLE_LOSS: Final = TensorNeed(
    CHECKS, regex=f"/{IS_WHOLE_LOSS}$", statistics=("value",), modes=("train",), end=FACT_STEPS, is_optional=True
)
"""The need of a rule that uses ``whole_loss``."""


def whole_loss(readings: Iterable[TensorReading]) -> dict[str, str]:
    """Return the loss call that is all of the loss, by worker, from readings of ``WHOLE_LOSS``."""
    marks = [reading for reading in readings if reading.tensor.endswith(f"/{IS_WHOLE_LOSS}")]
    return {mark.worker: mark.tensor.removesuffix(f"/{IS_WHOLE_LOSS}") for mark in marks if mark.value == 1.0}


def call_name(tensor: str) -> str:
    """Return the name of the call that a tensor belongs to: ``head.cross_entropy``."""
    part = _PART.match(tensor)
    return part["call"] if part else tensor


def kind_of(call: str) -> str:
    """Return the kind of a loss call: ``crossentropy``."""
    return _REPETITION.sub("", call.rpartition(".")[2]).replace("_", "").lower()


def is_loss_call(loss: str) -> bool:
    """Return whether a loss is named after a loss call that compares predictions with labels."""
    return kind_of(call_name(loss)) in _OF_LABELS


def guess_of(loss: str, calls: Mapping[str, LossCall], classes: int | None = None) -> Guess | None:
    """Return the loss of guessing of a loss; None: it is not known.

    Args:
        classes: The number of classes of every loss; None: taken from the loss call.
    """
    name = call_name(loss)
    call, kind = calls.get(name, LossCall()), kind_of(name)
    if classes is None and name in calls:
        classes = _class_count(kind, call.predictions)
    if classes is not None:
        words = f"among {classes:,} classes (ln {classes:,} = {significant(math.log(classes))})"
        return Guess(math.log(classes), call.labels, words, classes)
    mean_square, mean_size = call.mean_square(), call.statistics.get("abs_mean")
    if kind in _SQUARED and mean_square is not None:
        return _of_labels(mean_square + 1, call, 2)
    if kind in _ABSOLUTE and mean_size is not None:
        return _of_labels(mean_size + 1, call, 1)
    return None


def _of_labels(loss: float, call: LossCall, power: int) -> Guess:
    words = f"a value near 0 for these labels ({significant(loss)})"
    return Guess(loss, call.labels, words, power=power, error=call.error(power))


def _class_count(kind: str, shape: tuple[int, ...]) -> int | None:
    if kind in _BINARY:
        return 2
    if kind in _CLASSES_LAST and len(shape) > 1:
        return shape[-1] if shape[-1] > 1 else None
    if kind not in _CLASSES or not shape:
        return None
    classes = shape[0] if len(shape) == 1 else shape[1]
    return classes if classes >= 2 else None
