"""The level that a predictor without input reaches in a metric, from the labels of the loss calls."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from leadline.records import loss_facts as facts
from leadline.records.loss_facts import LossKind
from leadline.records.metric_names import BINARY_ENTROPY, BOOSTED, ENTROPY
from leadline.rules import Window
from leadline.rules.booster_detection import LABELS
from leadline.rules.losses.given_loss import GivenLoss, given_losses
from leadline.rules.losses.guess import call_name

LABEL_STATISTICS: Final = ("mean", "variance", "class_counts")
"""The statistics of labels that ``LabelsByCall`` reads."""
MIN_VALUES: Final = 300
"""The values of a metric from which on ``metric_not_improving`` evaluates it; ``closing_remarks`` does before."""
_SQUARES: Final = re.compile(r"mse_?loss|mean_?squared_?error", re.IGNORECASE)
_OF_CLASSES: Final = frozenset(
    {LossKind.CROSS_ENTROPY, LossKind.NLL, LossKind.LOG_LIKELIHOOD, LossKind.CATEGORICAL_CROSS_ENTROPY}
)
_OF_TWO: Final = frozenset({LossKind.BINARY_CROSS_ENTROPY, LossKind.BINARY_CROSS_ENTROPY_WITH_LOGITS})
_FAR: Final = 1.5
"""A loss beyond this multiple of the trivial level is not at that level: it may be a sum."""
MAX_START: Final = 3.0
"""A first loss above this multiple of guessing is told by ``loss_at_start``, or is a sum over samples."""
_DRIFT: Final = 1.5
"""The ratio of the labels' variance in the two halves of a run beyond which they change with the model."""
_BOOSTED_SQUARES: Final = {"l2": 1.0, "mse": 1.0, "rmse": 0.5, "l2_root": 0.5}
"""The metrics of boosters that are a power of the mean squared error."""
_BOOSTED_ENTROPIES: Final = frozenset({"logloss", "binary_logloss", "mlogloss", "multi_logloss"})
_GUESSING: Final = "always guessing by the labels' shares"


@dataclass(slots=True)
class LabelDistribution:
    """The distribution of the labels of one loss call, or of several."""

    counts: dict[int, float] = field(default_factory=dict)
    """The number of labels by class."""
    batches: list[tuple[float, float]] = field(default_factory=list)
    """Mean and variance of the labels of each batch."""

    def entropy(self) -> float | None:
        """Return the entropy of the classes in nats; None: no label was counted."""
        total = sum(self.counts.values())
        return -sum(count / total * math.log(count / total) for count in self.counts.values()) if total else None

    def mean(self) -> float | None:
        """Return the mean of all labels; None: not known."""
        means = [mean for mean, _ in self.batches if math.isfinite(mean)]
        return sum(means) / len(means) if means else None

    def largest_square(self) -> float | None:
        """Return the largest mean square of the labels of a batch; None: not known."""
        squares = [variance + mean**2 for mean, variance in self.batches if math.isfinite(mean)]
        return max(squares) if squares else None

    def variance(self) -> float | None:
        """Return the variance of all labels; None: not known, or not the same over the run."""
        variances = [variance for _, variance in self.batches]
        if not variances:
            return None
        half = len(variances) // 2
        first, last = sum(variances[:half]), sum(variances[len(variances) - half :])
        if max(first, last) > _DRIFT * min(first, last):
            return None
        means = [mean for mean, _ in self.batches if math.isfinite(mean)]
        middle = sum(means) / len(means) if means else 0.0
        between = sum((mean - middle) ** 2 for mean in means) / len(means) if means else 0.0
        return sum(variances) / len(variances) + between


class LabelsByCall:
    """What is known of the labels of a worker's loss calls."""

    def __init__(self) -> None:
        self._calls: dict[str, LabelDistribution] = {}
        self._given: dict[str, GivenLoss] = {}
        """What is known of each loss call from the graph."""

    @staticmethod
    def note(known: dict[str, LabelsByCall], window: Window) -> None:
        """Add the labels and facts of a step to those known of each worker."""
        means = {(reading.worker, reading.tensor): reading.value for reading in window.readings("mean")}
        for reading in window.readings("variance"):
            if math.isfinite(reading.value):
                mean = means.get((reading.worker, reading.tensor), math.nan)
                known.setdefault(reading.worker, LabelsByCall())._of(reading.tensor).batches.append(
                    (mean, reading.value)
                )
        for vector in window.vectors("class_counts"):
            counts = known.setdefault(vector.worker, LabelsByCall())._of(vector.tensor).counts
            for label, count in enumerate(vector.values.tolist()):
                if count:
                    counts[label] = counts.get(label, 0.0) + count
        for loss in given_losses(window):
            known.setdefault(loss.worker, LabelsByCall())._given[loss.name] = loss

    def _of(self, tensor: str) -> LabelDistribution:
        return self._calls.setdefault(call_name(tensor), LabelDistribution())

    def labels(self) -> float:
        """Return the number of labels with a class."""
        return sum(sum(call.counts.values()) for call in self._calls.values())

    def level(self, name: str) -> tuple[float, str] | None:
        """Return the value of a metric that a predictor without input would reach, and its description.

        Returns:
            None if it is not known.
        """
        boosted = BOOSTED.search(name)
        if boosted is not None and LABELS in self._calls:
            return _of_booster(boosted["metric"], self._calls[LABELS])
        if "acc" in name.lower():
            counts = _joined(self._calls.values()).counts
            share = max(counts.values()) / sum(counts.values()) if len(counts) > 1 else None
            return (share, "always naming the most frequent label") if share is not None else None
        call = self._calls.get(call_name(name))
        if call is None and len(self._calls) == 1:
            ((only, call),) = self._calls.items()
            name = only if name == "loss" else name
        is_weighted = any(loss.has(facts.HAS_CLASS_WEIGHTS) for loss in self._given.values())
        level = _of_distribution(name, call, is_weighted=is_weighted) if call is not None else None
        return level if level is None or level[0] > 0 else None

    def largest_square(self, name: str) -> float | None:
        """Return the largest mean square of a batch of labels of a squared error; None: it is none, or not known."""
        call = self._calls.get(call_name(name))
        return call.largest_square() if call is not None and _SQUARES.search(name) else None

    def level_of_only_call(self) -> tuple[float, str] | None:
        """Return the loss of guessing where a single loss call is known, from its number of classes; None: unknown."""
        if len(self._given) != 1:
            return None
        (loss,) = self._given.values()
        classes = loss.number(facts.SOFTMAX_SIZE) or loss.number(facts.CLASSES)
        if loss.kind in _OF_CLASSES and classes > 1:
            return math.log(classes), f"guessing among {classes:,.0f} classes"
        has_both = loss.number(facts.LABEL_MIN) < loss.number(facts.LABEL_MAX)
        return (math.log(2), "guessing between two classes") if loss.kind in _OF_TWO and has_both else None


def _of_distribution(name: str, call: LabelDistribution, *, is_weighted: bool) -> tuple[float, str] | None:
    if BINARY_ENTROPY.search(name):
        mean = call.mean()
        is_known = mean is not None and 0 < mean < 1
        return (_binary_entropy(mean), _GUESSING) if is_known else None  # type: ignore[arg-type]
    if ENTROPY.search(name):
        entropy = None if is_weighted else call.entropy()  # the mean is another one with weights of classes
        return (entropy, _GUESSING) if entropy is not None else None
    if _SQUARES.search(name):
        variance = call.variance()
        return (variance, "always naming the labels' mean") if variance is not None else None
    return None


def _of_booster(metric: str, labels: LabelDistribution) -> tuple[float, str] | None:
    """Return the level of a metric of XGBoost or LightGBM; None: it is not known for that metric."""
    if metric == "auc":
        return 0.5, "chance"
    if metric in _BOOSTED_SQUARES:
        variance = labels.variance()
        power = _BOOSTED_SQUARES[metric]
        return (variance**power, "always naming the labels' mean") if variance else None
    if metric in _BOOSTED_ENTROPIES:
        entropy = labels.entropy()
        return (entropy, _GUESSING) if entropy else None
    return None


def _binary_entropy(share: float) -> float:
    return -share * math.log(share) - (1 - share) * math.log(1 - share)


def _joined(calls: Iterable[LabelDistribution]) -> LabelDistribution:
    joined = LabelDistribution()
    for call in calls:
        joined.batches.extend(call.batches)
        for label, count in call.counts.items():
            joined.counts[label] = joined.counts.get(label, 0.0) + count
    return joined


def is_comparable(level: float, start: float, trivial: float) -> bool:
    """Return whether a loss is a mean that guessing can be compared with, not a sum over samples.

    A loss near that of guessing is one, and so is one that started there and has become worse.

    Args:
        level: The loss now.
        start: The loss at the beginning.
        trivial: The loss of guessing.
    """
    return level <= _FAR * trivial or start <= MAX_START * trivial
