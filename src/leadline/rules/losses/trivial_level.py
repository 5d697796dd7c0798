"""The level that a predictor without input reaches in a metric, from the labels of the loss calls."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from leadline.records import loss_facts as facts
from leadline.records.loss_facts import LossKind
from leadline.records.metric_names import BINARY_ENTROPY, ENTROPY
from leadline.records.names import CHECKS
from leadline.rules import TensorNeed, TensorVector, Window
from leadline.rules.losses.given_loss import GivenLoss, given_losses
from leadline.rules.losses.guess import call_name

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_LABEL_STATISTICS: Final = ("mean", "variance", "class_counts")
_QUANTILES: Final = "quantile_means"
_SORTED: Final = r"(?i)(?<!smooth)(?<!smooth_)l1_?loss|mean_?absolute_?error|poisson"
"""The losses of which ``LabelsByCall`` reads the sorted labels."""
MIN_VALUES: Final = 300
"""The values of a metric from which on ``metric_not_improving`` evaluates it; ``closing_remarks`` does before."""
_SQUARES: Final = re.compile(r"mse_?loss|mean_?squared_?error", re.IGNORECASE)
_ABSOLUTES: Final = re.compile(r"(?<!smooth)(?<!smooth_)l1_?loss|mean_?absolute_?error", re.IGNORECASE)
_POISSON: Final = re.compile(r"poisson(?P<of_logarithm>_?nll_?loss)?", re.IGNORECASE)
_OF_CLASSES: Final = frozenset(
    {LossKind.CROSS_ENTROPY, LossKind.NLL, LossKind.LOG_LIKELIHOOD, LossKind.CATEGORICAL_CROSS_ENTROPY}
)
_POISSON_KINDS: Final = frozenset({LossKind.POISSON_NLL, LossKind.POISSON_LIKELIHOOD})
_OF_TWO: Final = frozenset({LossKind.BINARY_CROSS_ENTROPY, LossKind.BINARY_CROSS_ENTROPY_WITH_LOGITS})
_FAR: Final = 1.5
"""A loss beyond this multiple of the trivial level is not at that level: it may be a sum."""
MAX_START: Final = 3.0
"""A first loss above this multiple of guessing is told by ``loss_at_start``, or is a sum over samples."""
_DRIFT: Final = 1.5
"""The ratio of the labels' variance in the two halves of a run beyond which they change with the model."""
_GUESSING: Final = "always guessing by the labels' shares"
_MEAN, _MEDIAN = "always naming the labels' mean", "always naming the labels' median"
_OF_BOOSTERS: Final = {
    "l1": _MEDIAN,
    "mae": _MEDIAN,
    "l2": _MEAN,
    "mse": _MEAN,
    "rmse": _MEAN,
    "l2_root": _MEAN,
    "poisson": _MEAN,
    "poisson-nloglik": _MEAN,
    "quantile": "always naming the labels' quantile",
    "auc": "chance",
    "ndcg": "a random order",
    "map": "a random order",
}
"""What a predictor without input does, by metric."""
_FACT: Final = re.compile(
    rf"(?P<name>.*-(?P<metric>[a-z_0-9]+(?:-nloglik)?)(?:@.*)?)/(?P<fact>{'|'.join(facts.GUESSES)})"
)


@dataclass(frozen=True, slots=True)
class TrivialLevel:
    """The value of a metric that a predictor without input would reach."""

    value: float
    predictor: str
    """What that predictor does."""
    perfect: float = 0.0
    """The value that a perfect one would reach."""

    def margin(self, share: float) -> float:
        """Return a share of what there is to be gained."""
        return share * abs(self.value - self.perfect)


@dataclass(slots=True)
class LabelDistribution:
    """The distribution of the labels of one loss call, or of several."""

    counts: dict[int, float] = field(default_factory=dict)
    """The number of labels by class."""
    batches: list[tuple[float, float]] = field(default_factory=list)
    """Mean and variance of the labels of each batch."""
    quantiles: list[tuple[Floats, Floats]] = field(default_factory=list)
    """The means of groups of the sorted labels of each batch, and the numbers of labels in them."""

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

    def all_quantiles(self) -> tuple[Floats, Floats] | None:
        """Return means of groups of labels and their shares of all labels, each batch alike; None: not known."""
        if not self.quantiles:
            return None
        import numpy as np

        values = np.concatenate([means for means, _ in self.quantiles])
        shares = np.concatenate([counts / counts.sum() for _, counts in self.quantiles])
        return values, shares / shares.sum()

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
        self._guesses: dict[str, tuple[str, dict[str, float]]] = {}
        """The metrics of a booster: what guessing does, and the facts about it."""

    @staticmethod
    def needs(*, end: int, every: int | None = None) -> tuple[TensorNeed, ...]:
        """Return what is read of labels.

        Args:
            end: The train step up to which they are read at every step; what guessing reaches at the first two.
            every: They are read at every such step, too; None: at no others.
        """
        wanted = (
            ("labels", None, _LABEL_STATISTICS, end),
            ("labels", _SORTED, (_QUANTILES,), end),
            (CHECKS, f"/({'|'.join(facts.GUESSES)})$", ("value",), min(end, facts.FACT_STEPS)),
        )
        return tuple(
            TensorNeed(
                collection, regex=regex, statistics=statistics, modes=("train",), is_optional=True, end=last, every=step
            )
            for collection, regex, statistics, first_steps in wanted
            for last, step in ((first_steps, None), (None, every))
            if last or step
        )

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
        for vector in window.vectors(_QUANTILES):
            known.setdefault(vector.worker, LabelsByCall())._of(vector.tensor).quantiles.append(_counted(vector))
        for reading in window.readings("value"):
            if (match := _FACT.fullmatch(reading.tensor)) and math.isfinite(reading.value):
                predictor = _OF_BOOSTERS.get(match["metric"], _GUESSING)
                guesses = known.setdefault(reading.worker, LabelsByCall())._guesses
                guesses.setdefault(match["name"], (predictor, {}))[1][match["fact"]] = reading.value
        for loss in given_losses(window):
            known.setdefault(loss.worker, LabelsByCall())._given[loss.name] = loss

    def _of(self, tensor: str) -> LabelDistribution:
        return self._calls.setdefault(call_name(tensor), LabelDistribution())

    def labels(self) -> float:
        """Return the number of labels with a class."""
        return sum(sum(call.counts.values()) for call in self._calls.values())

    def level(self, name: str) -> TrivialLevel | None:
        """Return the value of a metric that a predictor without input would reach; None: it is not known."""
        if name in self._guesses:
            predictor, found = self._guesses[name]
            return TrivialLevel(found.get(facts.GUESS_LEVEL, math.nan), predictor, found.get(facts.PERFECT_LEVEL, 0.0))
        if "acc" in name.lower():
            counts = _joined(self._calls.values()).counts
            share = max(counts.values()) / sum(counts.values()) if len(counts) > 1 else None
            return TrivialLevel(share, "always naming the most frequent label", 1.0) if share is not None else None
        call = self._calls.get(call_name(name))
        if call is None and len(self._calls) == 1:
            ((only, call),) = self._calls.items()
            name = only if name == "loss" else name
        is_weighted = any(loss.has(facts.HAS_CLASS_WEIGHTS) for loss in self._given.values())
        given = self._given.get(call_name(name))
        level = _of_distribution(name, call, given, is_weighted=is_weighted) if call is not None else None
        return level if level is None or level.value > level.perfect else None

    def largest_square(self, name: str) -> float | None:
        """Return the largest mean square of a batch of labels of a squared error; None: it is none, or not known."""
        call = self._calls.get(call_name(name))
        return call.largest_square() if call is not None and _SQUARES.search(name) else None

    def level_of_only_call(self) -> TrivialLevel | None:
        """Return the loss of guessing where a single loss call is known, from its number of classes; None: unknown."""
        if len(self._given) != 1:
            return None
        (loss,) = self._given.values()
        classes = loss.number(facts.SOFTMAX_SIZE) or loss.number(facts.CLASSES)
        if loss.kind in _OF_CLASSES and classes > 1:
            return TrivialLevel(math.log(classes), f"guessing among {classes:,.0f} classes")
        has_both = loss.number(facts.LABEL_MIN) < loss.number(facts.LABEL_MAX)
        return TrivialLevel(math.log(2), "guessing between two classes") if loss.kind in _OF_TWO and has_both else None


def _of_distribution(
    name: str, call: LabelDistribution, given: GivenLoss | None, *, is_weighted: bool
) -> TrivialLevel | None:
    if BINARY_ENTROPY.search(name):
        mean = call.mean()
        is_known = mean is not None and 0 < mean < 1
        return TrivialLevel(_binary_entropy(mean), _GUESSING) if is_known else None  # type: ignore[arg-type]
    if ENTROPY.search(name):
        entropy = None if is_weighted else call.entropy()  # the mean is another one with weights of classes
        return TrivialLevel(entropy, _GUESSING) if entropy is not None else None
    variance = call.variance()
    if variance is None:  # not known, or of labels of the model's own making
        return None
    if _SQUARES.search(name):
        return TrivialLevel(variance, _MEAN)
    quantiles = call.all_quantiles()
    if quantiles is None:
        return None
    from leadline.statistics.guessing import pinball

    if _ABSOLUTES.search(name):
        return TrivialLevel(2 * pinball(*quantiles, 0.5), _MEDIAN)
    poisson = _POISSON.search(name)
    return _of_poisson(*quantiles, given, has_logarithm=bool(poisson["of_logarithm"])) if poisson is not None else None


def _of_poisson(values: Floats, shares: Floats, given: GivenLoss | None, *, has_logarithm: bool) -> TrivialLevel | None:
    """Return the level of a Poisson loss; None: it is not known whether it has the part of the labels alone.

    Args:
        has_logarithm: Whether it is a loss that may have it, and is given logarithms of rates.
    """
    import numpy as np

    from leadline.statistics.guessing import poisson

    kind = given.kind if given is not None else LossKind.UNKNOWN
    if values.min() < 0 or (has_logarithm and kind not in _POISSON_KINDS):
        return None
    of_labels = 0.0
    if kind is LossKind.POISSON_LIKELIHOOD:
        large = np.where(values > 1, values, 1.0)  # Stirling's approximation, as PyTorch adds it
        stirling = large * np.log(large) - large + 0.5 * np.log(2 * math.pi * large)
        of_labels = float(np.where(values > 1, stirling, 0.0) @ shares)
    guess = poisson(values, shares, of_labels)
    return TrivialLevel(guess.level, _MEAN, guess.perfect)


def _counted(vector: TensorVector) -> tuple[Floats, Floats]:
    """Return the means of the groups of a batch of labels, and the numbers of labels in them."""
    import numpy as np

    size = math.prod(vector.shape) or len(vector.values)
    counts = np.diff(np.arange(len(vector.values) + 1) * size // max(len(vector.values), 1)).astype(np.float64)
    is_known = np.isfinite(vector.values)
    return vector.values[is_known], counts[is_known]


def _binary_entropy(share: float) -> float:
    return -share * math.log(share) - (1 - share) * math.log(1 - share)


def _joined(calls: Iterable[LabelDistribution]) -> LabelDistribution:
    joined = LabelDistribution()
    for call in calls:
        joined.batches.extend(call.batches)
        for label, count in call.counts.items():
            joined.counts[label] = joined.counts.get(label, 0.0) + count
    return joined


def is_comparable(level: float, start: float, trivial: float, perfect: float = 0.0) -> bool:
    """Return whether a loss is a mean that guessing can be compared with, not a sum over samples.

    A loss near that of guessing is one, and so is one that started there and has become worse.

    Args:
        level: The loss now.
        start: The loss at the beginning.
        trivial: The loss of guessing.
        perfect: The loss of a perfect predictor.
    """
    return level - perfect <= _FAR * (trivial - perfect) or start - perfect <= MAX_START * (trivial - perfect)
