"""Boosting rounds: their reporting to the step callbacks, and the capture of their data."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import get_ident
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from leadline.frameworks.adapter import Score, StepCallbacks
from leadline.frameworks.array_capture import CapturedArrays, ColumnSet
from leadline.frameworks.boosting.booster import Array, Booster, Evaluation, Floats
from leadline.frameworks.boosting.guesses import Guesses
from leadline.frameworks.pending import Pending
from leadline.frameworks.training_description import TrainingDescription
from leadline.instrumentation.guard import Guard
from leadline.records.names import AVERAGE_SHAP, FEATURE_IMPORTANCE, FULL_SHAP, TREES
from leadline.records.plan import CaptureItem
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.statistics.boosting import class_counts, confusion, kind_of, predicted_classes
from leadline.store.tensors import CaptureForm, HostBuffer

# --- reporting: when rounds begin, their scores, and when they end -------------------------------------------

MAX_FEATURE_NAMES = 10_000
"""Maximum number of features that the worker's document names."""
ReadScores = Callable[[], Sequence[Score]]
ReadChecks = Callable[[], Mapping[str, float]]
_CONCURRENT_TRAINING = "another booster is trained at the same time: its rounds are not captured"


class Rounds:
    """The boosting rounds of one training at a time; its owner is the object whose rounds are the steps.

    **Guarded** - every method may be called from a framework's own code: an error in Leadline does not reach it.

    Args:
        warn: Reports something that cannot be captured, in one line.
        document: Receives the description of the training for the worker's document.
    """

    def __init__(
        self, callbacks: StepCallbacks, guard: Guard, warn: Callable[[str], None], document: TrainingDescription
    ) -> None:
        self._callbacks, self._guard, self._warn = callbacks, guard, warn
        self._owner: weakref.ref[object] | None = None
        self._thread = 0
        self._is_announced = False
        """Whether the owner reports the end of its training itself."""
        self._count = 0
        self._booster: Booster | None = None
        """The booster of the round that is ending."""
        self._items: Sequence[CaptureItem] = ()
        self._guesses = Guesses()
        self._capture = RoundCapture(warn)
        self._document = document

    def begin(self, owner: object) -> None:
        """Begin a training whose end will be reported."""
        self._guard.run(self._begin, owner, is_announced=True)

    def begin_unannounced(self, owner: object) -> None:
        """Begin a round of a training that does not report its begin or end."""
        if not self._is_owner(owner):
            self._guard.run(self._begin, owner, is_announced=False)

    def is_within(self) -> bool:
        """Return whether a training that reported its begin is running in this thread."""
        return self._is_announced and self._thread == get_ident() and self._find() is not None

    def begin_update(self, owner: object) -> None:
        """Mark the beginning of tree growing."""
        if self._is_owner(owner):
            self._guard.run(self._callbacks.timeline.begin_update)

    def end_update(self, owner: object) -> None:
        """Mark the end of tree growing."""
        if self._is_owner(owner):
            self._guard.run(self._callbacks.timeline.end_update)

    def end_scoring(self, booster: object) -> None:
        """Mark the end of scoring the evaluation sets, the counterpart of a network's forward pass."""
        if self._is_owner(booster) or self.is_within():
            self._guard.run(self._callbacks.timeline.end_forward)

    def end_round(
        self,
        owner: object,
        booster: Booster | None,
        read_scores: ReadScores,
        *,
        read_checks: ReadChecks = dict,
        is_last: bool = False,
    ) -> None:
        """End a round.

        Args:
            booster: None for several boosters at once (cross-validation), of which only the scores are known.
            read_checks: Returns checks of how the training is stopped, by name; called where checks are captured.
            is_last: Whether it is the last round of the training.
        Raises:
            TrainingStopped: A stop was requested.
        """
        self._guard.run(self._end_round, owner, booster, read_scores, read_checks, is_last=is_last)

    def end(self, owner: object) -> None:
        """End the training, with or without an error."""
        self._guard.run(self._end, owner)

    # --- called by the recorder ----------------------------------------------------------------------------

    def schedule(self, items: Sequence[CaptureItem]) -> None:
        """Set the items to capture in the step that begins."""
        self._items = items

    def captured(self) -> RoundCapture | None:
        """Return the capture of the round that is ending; None if nothing is scheduled or the step is not a round."""
        booster, self._booster = self._booster, None
        items, self._items = self._items, ()
        return self._capture.begin(booster, items) if booster is not None and items else None

    # --- internals ----------------------------------------------------------------------------------------

    def _find(self) -> object | None:
        return self._owner() if self._owner is not None else None

    def _is_owner(self, owner: object) -> bool:
        return self._owner is not None and self._owner() is owner

    def _begin(self, owner: object, *, is_announced: bool) -> None:
        """Begin a training: in one thread the latest training owns the steps, that of another thread is left alone."""
        previous = self._find()
        if previous is not None and self._thread == get_ident():
            self._end(previous)
        if not self._callbacks.begin_training(owner):
            self._warn(_CONCURRENT_TRAINING)
            return
        self._owner, self._thread, self._is_announced = weakref.ref(owner), get_ident(), is_announced
        self._count = 0

    def _end_round(
        self,
        owner: object,
        booster: Booster | None,
        read_scores: ReadScores,
        read_checks: ReadChecks,
        *,
        is_last: bool,
    ) -> None:
        if not self._is_owner(owner):
            if self._find() is not None:
                return
            self._begin(owner, is_announced=True)  # attached mid-training, or a nested training has ended
            if not self._is_owner(owner):
                return
        callbacks = self._callbacks
        scores = callbacks.facts.of("scores are", is_vital=True).call(read_scores) or ()
        self._count += 1
        if is_last and booster is not None:
            callbacks.capture_last_step("trees")
        callbacks.record_scores(scores)
        self._booster = booster
        try:
            if booster is not None and callbacks.wants_checks():
                names = [score.name for score in scores]
                levels = callbacks.facts.of("the levels of guessing are").call(self._guesses.of, booster, names)
                stopping = callbacks.facts.of("the sets that early stopping watches are").call(read_checks)
                callbacks.record_checks({**(levels or {}), **(stopping or {})})
            if booster is not None and self._count == 1:
                callbacks.facts.of("hyperparameters and features of the booster are").call(self._describe, booster)
            callbacks.before_update(owner)
            callbacks.after_update(owner, is_skipped=False)
        finally:
            self._booster = None

    def _describe(self, booster: Booster) -> None:
        features = booster.constants.features
        self._document |= {
            "hyperparameters": booster.settings(),
            "features": tuple(features[:MAX_FEATURE_NAMES]),
            "evaluated_on": booster.evaluation_name(),
        }

    def _end(self, owner: object) -> None:
        if self._is_owner(owner):
            self._owner, self._is_announced = None, False
        self._callbacks.end_training(owner)


# --- capture: importances, SHAP values, trees, labels and predictions ----------------------------------------

_TREE_NAMES: Final = tuple(
    f"trees/{column}"
    for column in (
        "Tree",
        "Node",
        "ID",
        "Feature",
        "Split",
        "Yes",
        "No",
        "Missing",
        "Gain",
        "Cover",
        "Depth",
        "Category",
    )
)
_CLASS_STATISTICS: Final = frozenset({"class_counts", "confusion"})
_CLASSIFIERS: Final = ("binary", "multiclass")
_BIAS: Final = "bias"


@dataclass(frozen=True, slots=True)
class _ScalarSelection:
    """The requested columns of a collection of scalars."""

    block: ColumnSet
    indices: dict[str, npt.NDArray[np.intp]]
    """For each statistic the indices of the names for which it is requested, in the order of the block's columns."""


class RoundCapture:
    """See ``leadline.frameworks.adapter.Forward``: computes the scheduled values when its row is requested.

    Args:
        warn: Reports something that cannot be captured, in one line.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self.own_ns = self.begun_ns = 0
        self.accuracy: dict[str, Any] = {}
        self._arrays = CapturedArrays(warn)
        self._items: Sequence[CaptureItem] = ()
        self._booster: Booster | None = None
        self._selections: dict[tuple[object, ...], _ScalarSelection] = {}
        self._labels: tuple[Array, str, Array, bool] | None = None
        """The labels as last read, their objective, the labels as stored, and whether they are classes."""

    def begin(self, booster: Booster, items: Sequence[CaptureItem]) -> RoundCapture:
        """Start to capture these items from a round of this booster."""
        self._booster, self._items = booster, items
        return self

    def row(self) -> tuple[SeriesLayout, bytes] | None:
        """Return the scalars and statistics of the round."""
        booster, self._booster = self._booster, None
        if booster is None:
            return None
        self._arrays.begin(self._items, "train")
        self._keep_importances(booster)
        self._keep_contributions(booster)
        if any(self._is_requested(name, TREES) for name in _TREE_NAMES):
            for name, column in booster.trees().items():
                self._arrays.keep(f"trees/{name}", (TREES,), column)
        if self._is_requested("labels", "labels") or self._is_requested("predictions", "predictions"):
            evaluation = booster.evaluation()
            if evaluation is not None:
                self._keep_evaluation(evaluation, booster.constants.objective)
        return self._arrays.row()

    def raw_form(self) -> CaptureForm | None:
        """Return the form of the raw tensors of the round."""
        return self._arrays.raw_form()

    def fill(self, buffer: HostBuffer | None) -> Pending | None:
        """Copy the raw tensors into a buffer of ``raw_form()``."""
        return self._arrays.fill(buffer)

    # --- internals ----------------------------------------------------------------------------------------

    def _is_requested(self, name: str, collection: str) -> bool:
        statistics, is_raw = self._arrays.requested(name, (collection,))
        return is_raw or bool(statistics)

    def _keep_importances(self, booster: Booster) -> None:
        items = [item for item in self._items if item.collection in (FEATURE_IMPORTANCE, "all", None)]
        importances = booster.importances() if items else {}
        selection = self._select(FEATURE_IMPORTANCE, tuple(importances), booster.constants.features, ("value",), items)
        if selection.block.columns:
            values = np.concatenate([normalized(importance) for importance in importances.values()])
            self._arrays.keep_numbers(selection.block, values[selection.indices["value"]])

    def _keep_contributions(self, booster: Booster) -> None:
        """Keep SHAP values, only if requested by name or regular expression: they take longer than the round itself."""
        items = [item for item in self._items if item.collection in (AVERAGE_SHAP, FULL_SHAP, None)]
        features = (*booster.constants.features, _BIAS) if items else ()
        selection = self._select(AVERAGE_SHAP, ("",), features, ("value", "abs_mean"), items)
        is_full = any(item.selects(FULL_SHAP, frozenset({FULL_SHAP})) for item in items)
        contributions = booster.contributions() if selection.block.columns or is_full else None
        if contributions is None:
            return
        if selection.block.columns:
            axes = tuple(range(contributions.ndim - 1))
            means = {"value": contributions.mean(axes), "abs_mean": np.abs(contributions).mean(axes)}
            values = np.concatenate([means[statistic][indices] for statistic, indices in selection.indices.items()])
            self._arrays.keep_numbers(selection.block, values)
        if is_full:
            self._arrays.keep(FULL_SHAP, (FULL_SHAP,), contributions)

    def _select(
        self,
        collection: str,
        kinds: tuple[str, ...],
        features: tuple[str, ...],
        statistics: Sequence[str],
        items: Sequence[CaptureItem],
    ) -> _ScalarSelection:
        """Return the requested scalars of a collection, which has one for each kind and feature."""
        key = (collection, kinds, features, *(id(item) for item in items))
        if key not in self._selections:
            names = ["/".join(filter(None, (collection, kind, feature))) for kind in kinds for feature in features]
            self._selections[key] = _choose(collection, names, statistics, items)
        return self._selections[key]

    def _keep_evaluation(self, evaluation: Evaluation, objective: str) -> None:
        labels, are_classes = self._labels_of(evaluation, objective)
        self._keep_plain("labels", labels, is_constant=True)
        self._keep_plain("predictions", evaluation.predictions)
        if are_classes:
            self._keep_classes(labels, predicted_classes(evaluation.predictions, objective))

    def _labels_of(self, evaluation: Evaluation, objective: str) -> tuple[Array, bool]:
        """Return the labels, classes as integers; the identical array as long as they do not change."""
        if self._labels is not None:
            read, known_objective, labels, are_classes = self._labels
            if known_objective == objective and np.array_equal(read, evaluation.labels):
                return labels, are_classes
        are_classes = (
            evaluation.labels.ndim == 1
            and kind_of(objective, evaluation.labels, evaluation.predictions) in _CLASSIFIERS
        )
        labels = evaluation.labels.astype(np.int64 if are_classes else evaluation.labels.dtype)
        self._labels = (evaluation.labels.copy(), objective, labels, are_classes)
        return labels, are_classes

    def _keep_plain(self, name: str, array: Any, *, is_constant: bool = False) -> None:
        """Keep the statistics that any array has; those of classes are computed separately."""
        self._arrays.keep(name, (name,), array, without=_CLASS_STATISTICS, is_constant=is_constant)

    def _keep_classes(self, labels: Any, predicted: Any) -> None:
        for name, classes in (("labels", labels), ("predictions", predicted)):
            statistics, is_raw = self._arrays.requested(name, (name,))
            if is_raw or "class_counts" in statistics:
                self._arrays.keep_vector(name, "class_counts", class_counts(classes))
            if name == "labels" and (is_raw or "confusion" in statistics):
                counts = confusion(classes, predicted)
                if counts is not None:
                    self._arrays.keep_vector(name, "confusion", counts)


def normalized(values: Floats) -> Floats:
    """Return the values divided by their sum; unchanged if the sum is 0.

    Shape:
        ``(features,)``.
    """
    total = float(values.sum())
    return values / total if total else values


def _choose(
    collection: str, names: Sequence[str], statistics: Sequence[str], items: Sequence[CaptureItem]
) -> _ScalarSelection:
    collections = frozenset({collection})
    indices_by_statistic = {
        statistic: [
            index
            for index, name in enumerate(names)
            if any(statistic in item.statistics and item.selects(name, collections) for item in items)
        ]
        for statistic in statistics
    }
    kept = sorted({index for indices in indices_by_statistic.values() for index in indices})
    infos = tuple(TensorInfo(names[index], (collection,), (), "float64") for index in kept)
    position = {index: at for at, index in enumerate(kept)}
    columns = tuple(
        (position[index], statistic) for statistic, indices in indices_by_statistic.items() for index in indices
    )
    return _ScalarSelection(
        ColumnSet(infos, columns),
        {statistic: np.array(indices, np.intp) for statistic, indices in indices_by_statistic.items()},
    )
