"""The rule class_imbalance."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.losses.class_counts import added
from leadline.rules.rule import Rule
from leadline.rules.selection import check_pattern, select

if TYPE_CHECKING:
    from leadline.reader.window import TensorVector, Window
    from leadline.rules.losses.class_counts import Counts

_Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was seen of some labels since they were judged last."""

    counts: Counts | None = None
    """Labels by class, ``(classes,)``."""
    confusion: Counts | None = None
    """By label and prediction, ``(classes, classes)``."""

    @property
    def labels(self) -> float:
        return 0.0 if self.counts is None else float(self.counts.sum())


_REGRESSION: Final = re.compile(r"(mse|l1|smooth_?l1|huber|poisson_?nll|gaussian_?nll)_?loss_input_\d+$", re.IGNORECASE)
"""What goes into the losses of regression has no classes."""


class ClassImbalance(Rule, frozen=True, kw_only=True):
    """Fires when the classes of the labels are of very different size, or one class is mostly mispredicted.

    Why it matters:
        Where one class has ten times the examples of another, a model that never predicts the small one looks good
        in accuracy and loss, and is useless for what the small class is there for.
    How it decides:
        Labels are counted over the captured steps until there are ``samples``; then, of the classes that were seen,
        ``largest / smallest > threshold_imbalance`` fires, and so does a class of which
        ``mispredicted / labels > threshold_misprediction``. Then the count begins anew.
    Not a number:
        Labels are whole numbers; a prediction that is NaN is taken for the largest, as argmax has it.
    Blind spots:
        A class that was not seen at all is not missed. A model that has only begun mispredicts most of everything:
        the second part is worth something later in the training. Of more than 1,000 classes the first 1,000 are
        counted. Labels are those of calls of a classification loss, and of the set that a booster is evaluated on;
        others must be captured by name.
    Args:
        threshold_imbalance: Largest ratio of the largest to the smallest class that is no finding, >= 1.
        threshold_misprediction: Largest share of a class's labels that may be mispredicted, >= 0 and <= 1.
        samples: Labels that are counted before they are judged, >= 1.
        argmax: Amazon's switch for labels and predictions that are vectors (one-hot, probabilities, logits). Here
            the type decides: of floating ones the class is always the place of the largest, whole numbers are
            classes; true or false make no difference.
        labels_regex: Regular expression (``re.search``) for the labels; the collection ``labels`` is judged as well.
        predictions_regex: Regular expression (``re.search``) for predictions, which are counted to say how often the
            class in question is predicted; the collection ``predictions`` is as well.
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

    def remember(self, memory: Any, window: Window) -> dict[_Key, _Seen]:
        known: dict[_Key, _Seen] = {key: each for key, each in (memory or {}).items() if each.labels < self.samples}
        for vector in self._labels(window):
            seen = known.get(_key(vector), _Seen())
            known[_key(vector)] = replace(seen, counts=added(seen.counts, vector.values))
        for vector in window.vectors("confusion"):
            seen = known.get(_key(vector), _Seen())
            known[_key(vector)] = replace(seen, confusion=added(seen.confusion, vector.values))
        return known

    def evaluate(self, window: Window) -> Verdict:
        labels = self._labels(window)
        whole = [each for each in labels if window.memory[_key(each)].labels >= self.samples]
        if not whole:
            most = max((window.memory[_key(each)].labels for each in labels), default=0.0)
            return Undecided(f"{most:,.0f} of {self.samples:,} labels were counted by then")
        for each in whole:
            seen = window.memory[_key(each)]
            fired = self._imbalance(each, seen, window) or self._misprediction(each, seen)
            if fired is not None:
                return fired
        return Undecided("part of the labels at this step was lost") if window.is_thinned else Clear()

    def _labels(self, window: Window) -> list[TensorVector]:
        vectors = [each for each in window.vectors("class_counts") if not _REGRESSION.search(each.tensor)]
        return [each for each in vectors if "labels" in each.collections or re.search(self.labels_regex, each.tensor)]

    def _imbalance(self, labels: TensorVector, seen: _Seen, window: Window) -> Fired | None:
        assert seen.counts is not None
        sizes = {index: count for index, count in enumerate(seen.counts.tolist()) if count > 0}
        large, small = max(sizes, key=lambda each: sizes[each]), min(sizes, key=lambda each: sizes[each])
        ratio = sizes[large] / sizes[small]
        if ratio <= self.threshold_imbalance:
            return None
        predicted = self._predicted(labels.worker, small, window)
        return Fired(
            f"{labels.tensor}: class {large} has {sizes[large]:,.0f} of {seen.labels:,.0f} labels, class {small} only "
            f"{sizes[small]:,.0f} (1 to {ratio:.3g})",
            tensors=(labels.tensor,),
            evidence={
                "largest_class": large,
                "largest": sizes[large],
                "smallest_class": small,
                "smallest": sizes[small],
                "ratio": ratio,
                "threshold": self.threshold_imbalance,
                "labels": seen.labels,
                **predicted,
            },
            suggestion="a loss weighted by class (weight=1/frequency; scale_pos_weight of a booster), or a "
            "WeightedRandomSampler; "
            "usually the data are what they are, or a filter or shuffle lost one class",
            worker=labels.worker,
        )

    def _predicted(self, worker: str, index: int, window: Window) -> dict[str, object]:
        """How often a class is predicted at this step, where that is known."""
        for each in window.vectors("class_counts"):
            is_prediction = "predictions" in each.collections or re.search(self.predictions_regex, each.tensor)
            if each.worker == worker and is_prediction:
                counts = each.values.tolist()
                return {"smallest_predicted": counts[index] if index < len(counts) else 0.0, "predictions": sum(counts)}
        return {}

    def _misprediction(self, labels: TensorVector, seen: _Seen) -> Fired | None:
        if seen.confusion is None:
            return None
        rows = seen.confusion.sum(axis=1)
        shares = {
            index: 1.0 - float(seen.confusion[index, index] / count) for index, count in enumerate(rows) if count > 0
        }
        worst = max(shares, key=lambda each: shares[each], default=None)
        if worst is None or shares[worst] <= self.threshold_misprediction:
            return None
        row = seen.confusion[worst].copy()
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
            suggestion="a look at examples of that class and their labels, or a loss weighted by class; usually it is "
            "rare, mislabelled or hardly different from another, or the training has only begun",
            worker=labels.worker,
        )


def _key(vector: TensorVector) -> _Key:
    return vector.worker, vector.tensor, vector.mode
