"""The rule ignored_labels."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final

import msgspec

from leadline.records import loss_facts as facts
from leadline.records.names import CHECKS
from leadline.rules import Advice, Clear, Fired, Needs, NotApplicable, Rule, TensorNeed, Verdict, Window
from leadline.rules.losses.given_loss import GivenLoss, given_losses
from leadline.rules.messages import fired, suspected

_FACTS: Final = (facts.KIND, facts.IGNORE_INDEX, facts.IGNORED_SHARE)
_ADVICE: Final = Advice(
    "looking at the labels of a batch, and at what sets them to {index}; usually an answer lies beyond the maximum "
    "length and is cut off, or the text that marks its beginning is not found, so that everything is masked",
    "index",
)
_WINDOW: Final = 100
_MIN_BATCHES: Final = 3
_FIRST: Final = 2
"""So many first steps without any label are enough."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """What is known of the batch of a step."""

    step: int
    is_without_labels: bool
    """Whether its labels were looked at, and none counts."""
    is_suspicious: bool
    """Whether that is so, or its loss is NaN or exactly 0."""


@dataclass(slots=True)
class _Batches:
    """The latest batches of a worker."""

    latest: deque[_Batch] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    steps: int = 0
    are_seen: bool = False
    """Whether the labels of a batch were ever looked at."""

    @property
    def without_labels(self) -> list[int]:
        """The steps of those that were seen to have no label."""
        return [batch.step for batch in self.latest if batch.is_without_labels]

    @property
    def suspicious(self) -> list[int]:
        """The steps of those whose labels, or losses, say that there may be none."""
        return [batch.step for batch in self.latest if batch.is_suspicious]

    @property
    def are_all_without(self) -> bool:
        """Whether none of the first batches, up to now, has a label."""
        return self.steps == len(self.without_labels)


class IgnoredLabels(Rule, frozen=True, kw_only=True):
    """Fires when a loss ignores all labels of a batch, so that there is nothing to learn from.

    Why it matters:
        The mean over no label is NaN; where a trainer replaces it, or divides a sum by the labels of several batches,
        the loss is 0 and the batch only costs time. It is often seen late, since trainers leave NaN out of what they
        log.
    How it decides:
        Looks at the share of the class indices that are the index that the loss ignores (``ignore_index``, -100), at
        the first two steps, at captured steps, and at each step whose loss is NaN or exactly 0 when the backward pass
        begins. Fires if all labels are ignored at both of the first two steps; if that is so at a step whose loss is
        NaN; and if the loss is NaN or 0, or no label counts, at 3 of the last 100 train steps and at more than
        ``share`` of them, of which 2 were seen to have no label.
    Not a number:
        A loss that is NaN is what makes a batch without labels a finding at once.
    Blind spots:
        On an accelerator a loss is not known before the backward pass, so that only the first two and the captured
        steps are looked at. A loss that is part of a sum is neither NaN nor 0 where a mean over no label is left out:
        then, too, only those steps are. So it is once 8 losses of 0 or NaN in a row had labels. Where the loss is
        computed in a compiled function, labels are known as far as a model of Transformers is given them by name, at
        the first two steps. Labels are looked at in PyTorch only.
    Args:
        share: Share of the last 100 train steps, > 0 and < 1.
    Source:
        Ours; ``torch.nn.CrossEntropyLoss``.
    """

    explains: ClassVar[tuple[str, ...]] = (
        "loss_at_start",
        "diverging_loss",
        "loss_spike",
        "loss_not_decreasing",
        "metric_not_improving",
        "broken_metric",
        "no_gradient",
        "no_learning",
        "exploding_gradient",
        "exploding_tensor",
        "nonfinite_origin",
        "all_zero",
        "vanishing_gradient",
        "unchanged_tensor",
        "weight_update_ratio",
    )

    share: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.05

    def needs(self) -> Needs:
        return Needs(
            (
                TensorNeed(CHECKS, regex=rf"/({'|'.join(_FACTS)})$", statistics=("value",), modes=("train",)),
                TensorNeed("losses", statistics=("value",), modes=("train",), is_optional=True),
            )
        )

    @property
    def least_observations(self) -> int:
        return _FIRST

    def remember(self, memory: Any, window: Window) -> dict[str, _Batches]:
        workers: dict[str, _Batches] = memory or {}
        step = max((reading.mode_step for reading in window.readings("value")), default=0)
        seen = {loss.worker for loss in given_losses(window) if loss.is_known(facts.IGNORED_SHARE)}
        ignoring = {loss.worker for loss in _without_labels(window)}
        for worker, losses in _losses(window).items():
            known = workers.setdefault(worker, _Batches())
            known.steps += 1
            known.are_seen |= worker in seen
            is_suspicious = worker in ignoring or any(math.isnan(loss) or loss == 0 for loss in losses)
            known.latest.append(_Batch(step, worker in ignoring, is_suspicious))
        return workers

    def evaluate(self, window: Window) -> Verdict:
        found = list(_without_labels(window))
        losses = _losses(window)
        if not any(window.memory[worker].are_seen for worker in losses):
            return NotApplicable("no loss of class indices, as far as the graph shows")
        if not found:
            return Clear()
        for loss in found:
            known: _Batches = window.memory[loss.worker]
            if any(map(math.isnan, losses[loss.worker])):
                return self._fired(loss, known, "the loss is NaN: ")
            if known.steps >= _FIRST and known.are_all_without:
                return self._fired(loss, known, "")
            suspicious = known.suspicious
            is_often = len(suspicious) >= _MIN_BATCHES and len(suspicious) > self.share * len(known.latest)
            if is_often and len(known.without_labels) >= _FIRST:
                return self._fired(loss, known, f"{_often(known)}: ")
        return suspected(1, _FIRST, "steps")

    def _fired(self, loss: GivenLoss, known: _Batches, before: str) -> Fired:
        index = f"{loss.number(facts.IGNORE_INDEX):.0f}"
        return fired(
            f"{before}100 % of the labels that {loss.loss} is given are {index}, which it ignores: there is nothing to "
            "learn from",
            loss.tensor(facts.IGNORED_SHARE),
            advice=_ADVICE.given(index=index),
            evidence={
                "ignore_index": loss.number(facts.IGNORE_INDEX),
                "without_labels": len(known.without_labels),
                "zero_or_nan": len(known.suspicious),
                "steps": len(known.latest),
            },
            worker=loss.worker,
            since_step=known.without_labels[0],
        )


def _often(known: _Batches) -> str:
    """Return at how many of the latest steps the loss shows that there may be no label, and where that was seen."""
    count, seen = len(known.suspicious), len(known.without_labels)
    first, last = known.suspicious[0], known.suspicious[-1]
    of_steps = f"{count:,} of the last {len(known.latest):,} steps ({first:,} to {last:,})"
    if seen == count:
        return f"at {of_steps}"
    return f"the loss is 0 or NaN at {of_steps}, and at the {seen:,} of them that were looked at"


def _without_labels(window: Window) -> Iterator[GivenLoss]:
    """Yield the losses of a step of which every label is ignored."""
    for loss in given_losses(window):
        if loss.number(facts.IGNORED_SHARE) == 1.0:
            yield loss


def _losses(window: Window) -> dict[str, list[float]]:
    """Return the losses of a step by worker; of one whose loss was not captured, what its loss call is given counts."""
    found: dict[str, list[float]] = {loss.worker: [] for loss in given_losses(window)}
    for reading in window.readings("value"):
        if "losses" in reading.collections:
            found.setdefault(reading.worker, []).append(reading.value)
    return found
