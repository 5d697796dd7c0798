"""Reporting of boosting rounds to the step callbacks: when they begin, their scores, and when they end."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

from leadline.frameworks.adapter import Score, StepCallbacks
from leadline.frameworks.boosting.booster import Booster
from leadline.frameworks.boosting.round_capture import RoundCapture
from leadline.records.plan import CaptureItem
from leadline.training.guard import Guard

MAX_FEATURE_NAMES = 10_000
"""Maximum number of features that the worker's document names."""
ReadScores = Callable[[], Sequence[Score]]
_CONCURRENT_TRAINING = "another booster is trained at the same time: its rounds are not captured"


class Rounds:
    """The boosting rounds of one training at a time; its owner is the object whose rounds are the steps.

    **Guarded** - every method may be called from a framework's own code: an error in Leadline does not reach it.

    Args:
        warn: Reports something that cannot be captured, in one line.
        document: Receives the description of the training for the worker's document.
    """

    def __init__(
        self, callbacks: StepCallbacks, guard: Guard, warn: Callable[[str], None], document: dict[str, Any]
    ) -> None:
        self._callbacks, self._guard, self._warn = callbacks, guard, warn
        self._owner: weakref.ref[object] | None = None
        self._thread = 0
        self._is_announced = False
        """Whether the owner reports the end of its training itself."""
        self._count = self._trainings = 0
        self._booster: Booster | None = None
        """The booster of the round that is ending."""
        self._items: Sequence[CaptureItem] = ()
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
        """Mark the begin of tree growing."""
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
        self, owner: object, booster: Booster | None, read_scores: ReadScores, *, is_last: bool = False
    ) -> None:
        """End a round.

        Args:
            booster: None for several boosters at once (cross-validation), of which only the scores are known.
            is_last: Whether it is the last round of the training.
        Raises:
            TrainingStopped: A stop was requested.
        """
        self._guard.run(self._end_round, owner, booster, read_scores, is_last=is_last)

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

    def _end_round(self, owner: object, booster: Booster | None, read_scores: ReadScores, *, is_last: bool) -> None:
        if not self._is_owner(owner):
            if self._find() is not None:
                return
            self._begin(owner, is_announced=True)  # attached mid-training, or a nested training has ended
            if not self._is_owner(owner):
                return
        callbacks = self._callbacks
        scores = read_scores()
        self._count += 1
        if is_last and booster is not None:
            callbacks.capture_last_step("trees")
        callbacks.record_scores(scores)
        self._booster = booster
        try:
            if booster is not None and self._count == 1:
                self._describe(booster)
            callbacks.before_update(owner)
            if self._count == 1:
                self._trainings += 1
                callbacks.record_event("training", {"owner": type(owner).__name__, "number": self._trainings})
            callbacks.after_update(owner, is_skipped=False)
        finally:
            self._booster = None

    def _describe(self, booster: Booster) -> None:
        features = booster.constants.features
        self._document |= {
            "hyperparameters": booster.settings(),
            "features": list(features[:MAX_FEATURE_NAMES]),
            "evaluated_on": booster.evaluation_name(),
        }

    def _end(self, owner: object) -> None:
        if self._is_owner(owner):
            self._owner, self._is_announced = None, False
        self._callbacks.end_training(owner)
