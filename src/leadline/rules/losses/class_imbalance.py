"""The rule class_imbalance."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.formatting import share as percent
from leadline.records.formatting import significant
from leadline.rules import Advice, Fired, Needs, Rule, TensorVector, Undecided, Verdict, Window
from leadline.rules.bounds import PositiveInt, Share
from leadline.rules.losses.class_counts import add_counts, is_regression, start_step
from leadline.rules.messages import clear_if_complete, fired, too_few
from leadline.rules.selection import check_pattern, select

if TYPE_CHECKING:
    from leadline.rules.losses.class_counts import Counts

_Key = tuple[str, str, str]
_IMBALANCED: Final = Advice(
    "{weighted_loss}, or {sampled_classes}; usually the data are imbalanced by nature, or a filter or shuffle lost one "
    "class"
)
_MISPREDICTED: Final = Advice(
    "inspecting examples of that class and their labels, or a loss weighted by class; usually it is rare, mislabelled "
    "or hardly different from another, or the training has only just begun"
)


@dataclass(frozen=True, slots=True)
class _LabelCounts:
    """Counts of labels."""

    counts: Counts | None = None
    """Labels by class in all captures so far, ``(classes,)``."""
    confusion: Counts | None = None
    """Labels by class and predicted class in the latest captures, ``(classes, classes)``."""

    @property
    def labels(self) -> float:
        return 0.0 if self.counts is None else float(self.counts.sum())

    def extremes(self) -> tuple[tuple[int, float], tuple[int, float]]:
        """Return the largest and the smallest class that has labels, each with its count."""
        assert self.counts is not None
        sizes = {index: count for index, count in enumerate(self.counts.tolist()) if count > 0}
        large, small = max(sizes, key=lambda index: sizes[index]), min(sizes, key=lambda index: sizes[index])
        return (large, sizes[large]), (small, sizes[small])


_DEVIATIONS: Final = 3.0
"""Standard deviations by which a ratio or share must be beyond its threshold."""


class ClassImbalance(Rule, frozen=True, kw_only=True):
    """Fires when the classes of the labels have very different sizes, or one class is mostly mispredicted.

    Why it matters:
        If one class has ten times the examples of another, a model that never predicts the small one looks good in
        accuracy and loss, and is useless for the purpose of the small class.
    How it decides:
        Labels are counted over all captured steps; undecided before there are ``samples``. Fires if ``largest /
        smallest > threshold_imbalance`` of the classes in the labels, or if ``mispredicted / labels >
        threshold_misprediction`` of a class, in either case by three standard deviations: of the logarithm of the
        ratio, ``sqrt(1 / largest + 1 / smallest)``, and of the share (Wilson's interval). Undecided if the ratio is
        above the threshold by less. Mispredictions are counted from step 100 on (boosters: 10), and again after each
        ``samples`` labels.
    Not a number:
        Labels are whole numbers; a prediction of NaN counts as the largest one, as in argmax.
    Blind spots:
        A class without any labels is not detected. A class that is hard to tell from another is mispredicted long
        after step 100. With more than 1,000 classes the first 1,000 are counted. Labels are
        those of classification loss calls, and of the evaluation set of a booster; others must be captured by name.
    Args:
        threshold_imbalance: Largest ratio of the largest to the smallest class that is not a finding, >= 1.
        threshold_misprediction: Largest share of a class's labels that may be mispredicted, >= 0 and <= 1.
        samples: Labels that are counted before an evaluation, >= 1.
        argmax: SageMaker's switch for labels and predictions that are vectors (one-hot, probabilities, logits).
            Here the type decides: for floating-point tensors the class is always the index of the largest element,
            whole numbers are classes; true or false makes no difference.
        labels_regex: Regular expression (``re.search``) for the labels; the collection ``labels`` is evaluated as
            well.
        predictions_regex: Regular expression (``re.search``) for predictions, which are counted to report how often
            the class in question is predicted; the collection ``predictions`` is counted as well.
    Source:
        SageMaker developer guide, "ClassImbalance"; the standard deviations are ours.
    """

    explains: ClassVar[tuple[str, ...]] = ("confusion",)

    threshold_imbalance: Annotated[float, msgspec.Meta(ge=1)] = 10.0
    threshold_misprediction: Share = 0.7
    samples: PositiveInt = 500
    argmax: bool = False
    labels_regex: str = ".*labels"
    predictions_regex: str = ".*predictions"

    def check(self) -> None:
        check_pattern(self.name, "labels_regex", self.labels_regex)
        check_pattern(self.name, "predictions_regex", self.predictions_regex)

    def needs(self) -> Needs:
        labels = select(("labels",), (self.labels_regex,), ("class_counts", "confusion"))
        predictions = select(("predictions",), (self.predictions_regex,), ("class_counts",))
        return Needs((*labels, *(replace(need, is_optional=True) for need in predictions)))

    def remember(self, memory: Any, window: Window) -> dict[_Key, _LabelCounts]:
        known: dict[_Key, _LabelCounts] = dict(memory or {})
        for vector in self._labels(window):
            counted = known.get(_key(vector), _LabelCounts())
            known[_key(vector)] = replace(counted, counts=add_counts(counted.counts, vector.values))
        for vector in window.vectors("confusion"):
            if window.step < start_step(vector):
                continue
            counted = known.get(_key(vector), _LabelCounts())
            is_full = counted.confusion is not None and counted.confusion.sum() >= self.samples
            before = None if is_full else counted.confusion
            known[_key(vector)] = replace(counted, confusion=add_counts(before, vector.values))
        return known

    def evaluate(self, window: Window) -> Verdict:
        labels = self._labels(window)
        complete = [vector for vector in labels if window.memory[_key(vector)].labels >= self.samples]
        if not complete:
            count = max((window.memory[_key(vector)].labels for vector in labels), default=0.0)
            return too_few(int(count), self.samples, "labels")
        for vector in complete:
            counted = window.memory[_key(vector)]
            finding = self._imbalance(vector, counted, window) or self._misprediction(vector, counted)
            if finding is not None:
                return finding
        for vector in complete:
            counted = window.memory[_key(vector)]
            (_, most), (small, least) = counted.extremes()
            if most > self.threshold_imbalance * least:
                why = f"class {small} has {least:,.0f} of {counted.labels:,.0f} labels, too few to tell"
                return Undecided(why, stage="suspected")
        return clear_if_complete(window, "labels")

    def _labels(self, window: Window) -> list[TensorVector]:
        vectors = [vector for vector in window.vectors("class_counts") if not is_regression(vector)]
        return [
            vector
            for vector in vectors
            if "labels" in vector.collections or re.search(self.labels_regex, vector.tensor)
        ]

    def _imbalance(self, labels: TensorVector, counted: _LabelCounts, window: Window) -> Fired | None:
        (large, most), (small, least) = counted.extremes()
        ratio = most / least
        if math.log(ratio / self.threshold_imbalance) <= _DEVIATIONS * math.sqrt(1 / most + 1 / least):
            return None
        predicted = self._predicted(labels.worker, small, window)
        return fired(
            f"{labels.tensor}: class {large} has {most:,.0f} of {counted.labels:,.0f} labels, class {small} "
            f"only {least:,.0f} (1 to {significant(ratio)})",
            labels,
            advice=_IMBALANCED,
            evidence={
                "largest_class": large,
                "largest": most,
                "smallest_class": small,
                "smallest": least,
                "ratio": ratio,
                "threshold": self.threshold_imbalance,
                "labels": counted.labels,
                **predicted,
            },
        )

    def _predicted(self, worker: str, index: int, window: Window) -> dict[str, object]:
        """Return how often a class is predicted at this step, if known."""
        for vector in window.vectors("class_counts"):
            is_prediction = "predictions" in vector.collections or re.search(self.predictions_regex, vector.tensor)
            if vector.worker == worker and is_prediction:
                counts = vector.values.tolist()
                return {"smallest_predicted": counts[index] if index < len(counts) else 0.0, "predictions": sum(counts)}
        return {}

    def _misprediction(self, labels: TensorVector, counted: _LabelCounts) -> Fired | None:
        if counted.confusion is None:
            return None
        rows = counted.confusion.sum(axis=1)
        shares = {
            index: 1.0 - float(counted.confusion[index, index] / count) for index, count in enumerate(rows) if count > 0
        }
        bounds = {index: _at_least(share, float(rows[index])) for index, share in shares.items()}
        worst = max(bounds, key=lambda index: bounds[index], default=None)
        if worst is None or bounds[worst] <= self.threshold_misprediction:
            return None
        row = counted.confusion[worst].copy()
        row[worst] = -1.0
        return fired(
            f"{labels.tensor}: class {worst} is mispredicted for {percent(shares[worst])} of its "
            f"{rows[worst]:,.0f} labels, "
            f"mostly as class {int(row.argmax())}",
            labels,
            advice=_MISPREDICTED,
            evidence={
                "class": worst,
                "mispredicted_share": shares[worst],
                "labels": float(rows[worst]),
                "mostly_as": int(row.argmax()),
                "threshold": self.threshold_misprediction,
            },
        )


def _at_least(share: float, count: float) -> float:
    """Return the lower end of Wilson's interval for a share of so many labels."""
    spread = _DEVIATIONS**2 / count
    deviation = _DEVIATIONS * math.sqrt(share * (1 - share) / count + spread / 4 / count)
    return (share + spread / 2 - deviation) / (1 + spread)


def _key(vector: TensorVector) -> _Key:
    return vector.worker, vector.tensor, vector.mode
