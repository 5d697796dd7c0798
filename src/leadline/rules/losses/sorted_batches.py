"""The rule sorted_batches."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from leadline.rules import (
    Advice,
    Clear,
    Fired,
    Needs,
    NotApplicable,
    Rule,
    TensorNeed,
    TensorVector,
    Undecided,
    Verdict,
    Window,
)
from leadline.rules.losses.class_counts import add_counts, is_regression
from leadline.rules.messages import fired, suspected, too_few

if TYPE_CHECKING:
    from leadline.rules.losses.class_counts import Counts

_MIN_LABELS: Final = 8
"""Smaller batches may hold a single class by chance."""
_FIRST_STEPS: Final = 6
_EVERY: Final = 10
_MIXED: Final = 0.2
"""The share of batches with several classes up to which data count as sorted: those at the borders of classes."""
_POSITION: Final = re.compile(r"(?<=_input)_\d+$")
_Key = tuple[str, str]
_ADVICE: Final = Advice(
    "{shuffle}, or a random order of the examples in each epoch; usually the data lie on disk class by class"
)


@dataclass(slots=True)
class _Step:
    """The labels of all calls of a criterion in one step, which are one batch."""

    tensor: str
    """Those of the first call."""
    counts: Counts


@dataclass(slots=True)
class _Batches:
    """The batches of a criterion so far."""

    pure: dict[int, int] = field(default_factory=dict)
    """The number of batches with a single class, by class."""
    mixed: int = 0

    @property
    def count(self) -> int:
        return sum(self.pure.values()) + self.mixed

    def are_sorted(self) -> bool:
        """Return whether nearly every batch holds a single class, and several batches another one than most.

        What one batch holds alone may be due to its place: the first step may be another part of the loop.
        """
        others = sum(self.pure.values()) - max(self.pure.values(), default=0)
        return others > 1 and self.mixed <= _MIXED * self.count


class SortedBatches(Rule, frozen=True, kw_only=True):
    """Fires when each batch holds labels of a single class, and another class in other batches.

    Why it matters:
        The model learns to name the class of the latest batches and forgets the others: the loss looks small, jumps
        where the next class begins, and the accuracy on all classes is that of guessing.
    How it decides:
        Counts the batches of at least 8 labels, at the first 6 steps and every 10th, whose labels all have the same
        class. The labels of all calls of a criterion in a step are one batch: a discriminator's real and generated
        samples, micro-batches, places of a sequence. Fires once there are ``batches`` of them, at least two of another
        class than most, and at most a fifth of all batches holds several classes.
    Not a number:
        NaN among the labels of a binary loss counts as the class 0.
    Blind spots:
        Labels of regressions have no classes, and are not counted. Data that are sorted within each batch, or by
        something else than the class, are not seen. A model that is trained on one class after the other on purpose
        (continual learning) fires as well, and so may a discriminator that is given real and generated samples in
        backward passes of their own, of which only the first is captured.
    Args:
        batches: Batches with a single class that are required, >= 2.
    Source:
        Ours; Bengio, "Practical recommendations for gradient-based training of deep architectures" (2012), on the order
        of examples.
    """

    explains: ClassVar[tuple[str, ...]] = (
        "loss_spike",
        "exploding_gradient",
        "metric_not_improving",
        "diverging_loss",
        "loss_not_decreasing",
        "confusion",
        "class_imbalance",
        "loss_at_start",
    )

    batches: Annotated[int, msgspec.Meta(ge=2)] = 8

    def needs(self) -> Needs:
        labels = TensorNeed("labels", statistics=("class_counts",), modes=("train",), end=_FIRST_STEPS)
        return Needs((labels, TensorNeed("labels", statistics=("class_counts",), modes=("train",), every=_EVERY)))

    @property
    def least_observations(self) -> int:
        return self.batches

    def remember(self, memory: Any, window: Window) -> dict[_Key, _Batches]:
        known: dict[_Key, _Batches] = memory or {}
        for key, step in _steps(window).items():
            batches = known.setdefault(key, _Batches())
            classes = [index for index, count in enumerate(step.counts.tolist()) if count]
            if len(classes) == 1:
                batches.pure[classes[0]] = batches.pure.get(classes[0], 0) + 1
            else:
                batches.mixed += 1
        return known

    def evaluate(self, window: Window) -> Verdict:
        judged = [(worker, step.tensor, window.memory[worker, name]) for (worker, name), step in _steps(window).items()]
        if not judged:
            if any(is_regression(vector) for vector in _labels(window)):
                return NotApplicable("the labels of a regression have no classes")
            return Undecided(f"no batch of {_MIN_LABELS} labels with classes was captured at this step")
        sorted_ones = [entry for entry in judged if entry[2].are_sorted()]
        for worker, tensor, batches in sorted_ones:
            pure = sum(batches.pure.values())
            if pure >= self.batches:
                return self._fired(worker, tensor, batches, pure)
        count = max(batches.count for *_, batches in judged)
        if sorted_ones:
            return suspected(count, self.batches, "batches")
        return Clear() if count >= self.batches else too_few(count, self.batches, "batches")

    def _fired(self, worker: str, tensor: str, batches: _Batches, pure: int) -> Fired:
        return fired(
            f"{tensor}: {pure} of {batches.count} batches hold labels of a single class, of {len(batches.pure)} "
            "classes in all",
            tensor,
            advice=_ADVICE,
            evidence={"pure": pure, "batches": batches.count, "classes": len(batches.pure)},
            worker=worker,
        )


def _steps(window: Window) -> dict[_Key, _Step]:
    """Return the labels of this step, by worker and criterion, where there are enough."""
    steps: dict[_Key, _Step] = {}
    for vector in _labels(window):
        if is_regression(vector):
            continue
        key = vector.worker, _POSITION.sub("", vector.tensor)
        if key in steps:
            steps[key].counts = add_counts(steps[key].counts, vector.values)
        else:
            steps[key] = _Step(vector.tensor, vector.values)
    return {key: step for key, step in steps.items() if step.counts.sum() >= _MIN_LABELS}


def _labels(window: Window) -> list[TensorVector]:
    return [vector for vector in window.vectors("class_counts") if "labels" in vector.collections]
