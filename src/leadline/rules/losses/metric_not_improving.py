"""The rule metric_not_improving."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.robust import mann_kendall
from leadline.rules.rule import Rule

if TYPE_CHECKING:
    from leadline.reader.window import TensorReading, Window

_MOST_BLOCKS: Final = 128
_FEWEST_BLOCKS: Final = 40
_FIRST_STEPS: Final = 5
_EVERY: Final = 50
_UP: Final = re.compile(
    r"acc|auc|auroc|f1|f_?beta|precision|recall|sensitivity|specificity|dice|iou|jaccard|bleu|rouge|meteor|mcc|kappa|"
    r"psnr|ssim|reward|return|score|r2(?![0-9])|hit|ndcg|map(?![a-z])|top_?\d",
    re.IGNORECASE,
)
_DOWN: Final = re.compile(
    r"loss|error|err(?![a-z])|perplexity|ppl|(?<![a-z])(mae|mse|rmse|mape|wer|cer|fid|nll|bpc)(?![a-z])", re.IGNORECASE
)
_ENTROPY: Final = re.compile(r"cross_?entropy(?!.*logits)", re.IGNORECASE)
_SQUARES: Final = re.compile(r"mse_?loss", re.IGNORECASE)


@dataclass(slots=True)
class _Course:
    """A metric's means over blocks of equal length, which double when there are too many: what is smoothed away is a
    fixed share of the run, however long it is."""

    is_upward: bool
    length: int = 1
    means: list[float] = field(default_factory=list)
    _sum: float = 0.0
    _count: int = 0

    def add(self, value: float) -> bool:
        """Take in a value; whether a block is full with it."""
        self._sum += value
        self._count += 1
        if self._count < self.length:
            return False
        self.means.append(self._sum / self._count)
        self._sum, self._count = 0.0, 0
        if len(self.means) == _MOST_BLOCKS:
            pairs = zip(self.means[::2], self.means[1::2], strict=True)
            self.means = [(one + other) / 2 for one, other in pairs]
            self.length *= 2
        return True


@dataclass(frozen=True, slots=True)
class _Standing:
    """How a metric stands at the end of its last block."""

    level: float
    """Mean of the last half."""
    trivial: float
    """What a predictor that looks at no input would reach."""
    what: str
    """Which predictor that is."""
    p: float
    """How likely values without a trend improve so clearly."""
    is_stuck: bool
    values: int
    """How many the last half has."""


@dataclass(slots=True)
class _Labels:
    """What is known of a worker's labels."""

    counts: dict[int, float] = field(default_factory=dict)
    variances: list[float] = field(default_factory=list)


@dataclass(slots=True)
class _Memory:
    courses: dict[tuple[str, str, str], _Course] = field(default_factory=dict)
    standings: dict[tuple[str, str, str], _Standing] = field(default_factory=dict)
    labels: dict[str, _Labels] = field(default_factory=dict)


class MetricNotImproving(Rule, frozen=True, kw_only=True):
    """Fires when a metric or loss does not improve any more, and is no better than a trivial predictor's.

    Why it matters:
        A training that has converged is done; one that stands still where guessing stands has not begun, and no number
        of further epochs will change that.
    How it decides:
        A metric's values are averaged over 64 to 128 blocks of equal length (at least 40 at the start of a run). Over
        the last half of the blocks the Mann-Kendall test finds no improvement with ``p`` or less, and their mean is not
        better than the trivial level by two standard errors. The trivial level is: of a cross entropy, the entropy of
        the labels; of a mean squared error, their variance; of an accuracy, the share of the most frequent label; of
        anything else, or where no labels were captured, the metric's own first tenth. Whether higher or lower is better
        is told by the name (accuracy, f1, auc, reward …; loss, error, perplexity …); what has no such name is not
        judged.
    Not a number:
        NaN and infinity are left out.
    Blind spots:
        A model that starts well (fine-tuning) and losses that two networks push against each other have a first tenth
        that they need not beat. Labels are those of the first 5 steps and every 50th; rare classes may be missing.
        The variance of several outputs together is above what predicting each one's mean would leave.
    Args:
        p: Significance from which on an improvement counts, > 0 and < 1.
    Source:
        Ours; Mann 1945, Kendall 1975.
    """

    p: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.01

    def needs(self) -> Needs:
        modes, wanted = ("train", "eval"), ("variance", "class_counts")
        return Needs(
            (
                TensorNeed("metrics", statistics=("value",), modes=modes),
                TensorNeed("losses", statistics=("value",), modes=modes),
                TensorNeed("labels", statistics=wanted, modes=("train",), end=_FIRST_STEPS),
                TensorNeed("labels", statistics=wanted, modes=("train",), every=_EVERY),
            )
        )

    def remember(self, memory: Any, window: Window) -> _Memory:
        known: _Memory = memory or _Memory()
        _note_labels(known, window)
        for each in window.readings("value"):
            is_upward = _direction(each.tensor)
            if is_upward is None or not math.isfinite(each.value):
                continue
            key = (each.worker, each.mode, each.tensor)
            course = known.courses.setdefault(key, _Course(is_upward))
            if course.add(each.value) and len(course.means) >= _FEWEST_BLOCKS:
                known.standings[key] = self._stand(course, each, known.labels.get(each.worker, _Labels()))
        return known

    def evaluate(self, window: Window) -> Verdict:
        readings = window.readings("value")
        standings = [(each, window.memory.standings.get((each.worker, each.mode, each.tensor))) for each in readings]
        judged = [(each, standing) for each, standing in standings if standing is not None]
        stuck = [(each, standing) for each, standing in judged if standing.is_stuck]
        if stuck:
            return self._fired(*stuck[0], tensors=tuple(dict.fromkeys(each.tensor for each, _ in stuck)))
        return Clear() if judged else Undecided(f"fewer than {_FEWEST_BLOCKS} values of a metric or loss were captured")

    def _stand(self, course: _Course, reading: TensorReading, labels: _Labels) -> _Standing:
        half = course.means[len(course.means) // 2 :]
        level = sum(half) / len(half)
        error = (sum((each - level) ** 2 for each in half) / len(half)) ** 0.5 / len(half) ** 0.5
        trend = mann_kendall(half)
        p = trend.p_of_rising() if course.is_upward else trend.p_of_falling()
        trivial, what = _trivial(reading.tensor, course, labels)
        better = level - trivial if course.is_upward else trivial - level
        is_stuck = p > self.p and not better > 2 * error
        return _Standing(level, trivial, what, p, is_stuck, len(half) * course.length)

    def _fired(self, reading: TensorReading, standing: _Standing, tensors: tuple[str, ...]) -> Fired:
        return Fired(
            f"{reading.tensor} stays at {standing.level:.4g} over the last {standing.values:,} values, no better than "
            f"{standing.what} ({standing.trivial:.4g})",
            tensors=tensors,
            evidence={
                "level": standing.level,
                "trivial": standing.trivial,
                "trivial_predictor": standing.what,
                "p_of_trend": standing.p,
                "threshold": self.p,
                "values": standing.values,
            },
            suggestion="train on one batch until it is learned by heart, and a look at inputs beside their labels; "
            "usually labels and inputs do not belong together, the learning rate is far off, or gradients do not reach "
            "the layers that matter",
            worker=reading.worker,
        )


def _note_labels(known: _Memory, window: Window) -> None:
    for each in window.readings("variance"):
        if math.isfinite(each.value):
            known.labels.setdefault(each.worker, _Labels()).variances.append(each.value)
    for vector in window.vectors("class_counts"):
        counts = known.labels.setdefault(vector.worker, _Labels()).counts
        for label, count in enumerate(vector.values.tolist()):
            if count:
                counts[label] = counts.get(label, 0.0) + count


def _direction(name: str) -> bool | None:
    """Whether higher is better; None where the name does not tell. What is both (``score_error``) is lower."""
    if _DOWN.search(name) or _ENTROPY.search(name):
        return False
    return True if _UP.search(name) else None


def _trivial(name: str, course: _Course, labels: _Labels) -> tuple[float, str]:
    """What a predictor that looks at no input reaches, and which it is."""
    total = sum(labels.counts.values())
    if total and _ENTROPY.search(name):
        shares = [each / total for each in labels.counts.values()]
        return -sum(each * math.log(each) for each in shares), "always guessing by the labels' shares"
    if total and "acc" in name.lower():
        return max(labels.counts.values()) / total, "always naming the most frequent label"
    if labels.variances and _SQUARES.search(name):
        return sum(labels.variances) / len(labels.variances), "always naming the labels' mean"
    first = course.means[: max(1, len(course.means) // 10)]
    return sum(first) / len(first), "at the start"
