"""The rule class_imbalance."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.needs import Needs
from leadline.records.verdict import Fired, Undecided, Verdict
from leadline.rules.losses.class_counts import add_counts
from leadline.rules.messages import clear_if_complete
from leadline.rules.rule import Rule
from leadline.rules.selection import check_pattern, select

if TYPE_CHECKING:
    from leadline.reader.window import TensorVector, Window
    from leadline.rules.losses.class_counts import Counts

_Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _LabelCounts:
    """Counts of labels since the last evaluation."""

    counts: Counts | None = None
    """Labels by class, ``(classes,)``."""
    confusion: Counts | None = None
    """Labels by class and predicted class, ``(classes, classes)``."""

    @property
    def labels(self) -> float:
        return 0.0 if self.counts is None else float(self.counts.sum())


_REGRESSION: Final = re.compile(r"(mse|l1|smooth_?l1|huber|poisson_?nll|gaussian_?nll)_?loss_input_\d+$", re.IGNORECASE)
"""Inputs of regression losses, which have no classes."""


class ClassImbalance(Rule, frozen=True, kw_only=True):
    """Fires when the classes of the labels have very different sizes, or one class is mostly mispredicted.

    Why it matters:
        If one class has ten times the examples of another, a model that never predicts the small one looks good in
        accuracy and loss, and is useless for the purpose of the small class.
    How it decides:
        Labels are counted over the captured steps until there are ``samples``. Then it fires if ``largest /
        smallest > threshold_imbalance`` of the classes in the labels, or if ``mispredicted / labels >
        threshold_misprediction`` of a class. Then the counts are reset.
    Not a number:
        Labels are whole numbers; a prediction of NaN counts as the largest one, as in argmax.
    Blind spots:
        A class without any labels is not detected. Early in a training most predictions are wrong: the second
        condition is meaningful only later. With more than 1,000 classes the first 1,000 are counted. Labels are
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
        SageMaker developer guide, "ClassImbalance".
    """

    explains: ClassVar[tuple[str, ...]] = ("confusion",)

    threshold_imbalance: Annotated[float, msgspec.Meta(ge=1)] = 10.0
    threshold_misprediction: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.7
    samples: Annotated[int, msgspec.Meta(ge=1)] = 500
    argmax: bool = False
    labels_regex: str = ".*labels"
    predictions_regex: str = ".*predictions"

    def check(self) -> None:
        check_pattern(self.name, "labels_regex", self.labels_regex)
        check_pattern(self.name, "predictions_regex", self.predictions_regex)

    def needs(self) -> Needs:
        labels = select(("labels",), (self.labels_regex,), ("class_counts", "confusion"))
        return Needs((*labels, *select(("predictions",), (self.predictions_regex,), ("class_counts",))))

    def remember(self, memory: Any, window: Window) -> dict[_Key, _LabelCounts]:
        known: dict[_Key, _LabelCounts] = {
            key: counted for key, counted in (memory or {}).items() if counted.labels < self.samples
        }
        for vector in self._labels(window):
            counted = known.get(_key(vector), _LabelCounts())
            known[_key(vector)] = replace(counted, counts=add_counts(counted.counts, vector.values))
        for vector in window.vectors("confusion"):
            counted = known.get(_key(vector), _LabelCounts())
            known[_key(vector)] = replace(counted, confusion=add_counts(counted.confusion, vector.values))
        return known

    def evaluate(self, window: Window) -> Verdict:
        labels = self._labels(window)
        complete = [vector for vector in labels if window.memory[_key(vector)].labels >= self.samples]
        if not complete:
            count = max((window.memory[_key(vector)].labels for vector in labels), default=0.0)
            return Undecided(f"{count:,.0f} of {self.samples:,} labels were counted so far")
        for vector in complete:
            counted = window.memory[_key(vector)]
            fired = self._imbalance(vector, counted, window) or self._misprediction(vector, counted)
            if fired is not None:
                return fired
        return clear_if_complete(window, "labels")

    def _labels(self, window: Window) -> list[TensorVector]:
        vectors = [vector for vector in window.vectors("class_counts") if not _REGRESSION.search(vector.tensor)]
        return [
            vector
            for vector in vectors
            if "labels" in vector.collections or re.search(self.labels_regex, vector.tensor)
        ]

    def _imbalance(self, labels: TensorVector, counted: _LabelCounts, window: Window) -> Fired | None:
        assert counted.counts is not None
        sizes = {index: count for index, count in enumerate(counted.counts.tolist()) if count > 0}
        large, small = max(sizes, key=lambda index: sizes[index]), min(sizes, key=lambda index: sizes[index])
        ratio = sizes[large] / sizes[small]
        if ratio <= self.threshold_imbalance:
            return None
        predicted = self._predicted(labels.worker, small, window)
        return Fired(
            f"{labels.tensor}: class {large} has {sizes[large]:,.0f} of {counted.labels:,.0f} labels, class {small} "
            f"only {sizes[small]:,.0f} (1 to {ratio:.3g})",
            tensors=(labels.tensor,),
            evidence={
                "largest_class": large,
                "largest": sizes[large],
                "smallest_class": small,
                "smallest": sizes[small],
                "ratio": ratio,
                "threshold": self.threshold_imbalance,
                "labels": counted.labels,
                **predicted,
            },
            suggestion="a loss weighted by class (weight=1/frequency; scale_pos_weight of a booster), or a "
            "WeightedRandomSampler; "
            "usually the data are imbalanced by nature, or a filter or shuffle lost one class",
            worker=labels.worker,
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
        worst = max(shares, key=lambda index: shares[index], default=None)
        if worst is None or shares[worst] <= self.threshold_misprediction:
            return None
        row = counted.confusion[worst].copy()
        row[worst] = -1.0
        return Fired(
            f"{labels.tensor}: class {worst} is mispredicted for {shares[worst]:.0%} of its {rows[worst]:,.0f} labels, "
            f"mostly as class {int(row.argmax())}",
            tensors=(labels.tensor,),
            evidence={
                "class": worst,
                "mispredicted_share": shares[worst],
                "labels": float(rows[worst]),
                "mostly_as": int(row.argmax()),
                "threshold": self.threshold_misprediction,
            },
            suggestion="inspecting examples of that class and their labels, or a loss weighted by class; usually it is "
            "rare, mislabelled or hardly different from another, or the training has only just begun",
            worker=labels.worker,
        )


def _key(vector: TensorVector) -> _Key:
    return vector.worker, vector.tensor, vector.mode
