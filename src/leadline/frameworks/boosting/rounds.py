"""The rounds of a training of boosters, told to the probes: when they begin, what they scored, when they end."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.boosting.booster import Booster
from leadline.frameworks.boosting.round_capture import RoundCapture
from leadline.frameworks.scores import Scores
from leadline.records.plan import CaptureItem
from leadline.training.guard import Guard

MOST_FEATURES_TOLD = 10_000
"""The worker's document names no more features than this."""
Scored = Callable[[], tuple[Scores, Sequence[float]]]
"""What a round has scored: of which sets and metrics, and the numbers."""
_ASIDE = "another booster is trained at the same time: its rounds are not captured"


class Rounds:
    """One training at a time: what its owner (the object that has the rounds) does is steps.

    **Guarded** - every method may be called from a framework's own code: a failure of ours ends there.

    Args:
        tell: Takes a line about something that cannot be captured.
        document: What the worker's document says of the training is added here.
    """

    def __init__(
        self, probes: StepCallbacks, guard: Guard, tell: Callable[[str], None], document: dict[str, Any]
    ) -> None:
        self._probes, self._guard, self._tell = probes, guard, tell
        self._owner: weakref.ref[object] | None = None
        self._thread = 0
        self._is_announced = False
        """Whether the owner says itself when it is done."""
        self._count = self._trainings = 0
        self._booster: Booster | None = None
        """The round that is ending."""
        self._due: Sequence[CaptureItem] = ()
        self._capture = RoundCapture(tell)
        self._document = document

    def begin(self, owner: object) -> None:
        """A training begins, and says when it ends."""
        self._guard.run(self._begin, owner, is_announced=True)

    def take(self, owner: object) -> None:
        """A round begins of a training that says nothing else."""
        if not self._is_ours(owner):
            self._guard.run(self._begin, owner, is_announced=False)

    def is_within(self) -> bool:
        """Whether a training that said it begins goes on in this thread."""
        return self._is_announced and self._thread == get_ident() and self._find() is not None

    def begin_update(self, owner: object) -> None:
        """A round begins to grow its trees."""
        if self._is_ours(owner):
            self._guard.run(self._probes.timeline.begin_update)

    def end_update(self, owner: object) -> None:
        """They are grown."""
        if self._is_ours(owner):
            self._guard.run(self._probes.timeline.end_update)

    def end_scoring(self, booster: object) -> None:
        """Evaluation sets have been scored: of networks that would be a forward pass."""
        if self._is_ours(booster) or self.is_within():
            self._guard.run(self._probes.timeline.end_forward)

    def end_round(self, owner: object, booster: Booster | None, scores: Scored, *, is_last: bool = False) -> None:
        """A round has ended.

        Args:
            booster: None: there are several at once, and only their scores are known.
            is_last: Whether no other will come.
        Raises:
            TrainingStopped: Somebody asked to stop.
        """
        self._guard.run(self._end_round, owner, booster, scores, is_last=is_last)

    def end(self, owner: object) -> None:
        """The training has ended, with or without an error."""
        self._guard.run(self._end, owner)

    # --- what the recorder asks ---------------------------------------------------------------------------

    def watch(self, items: Sequence[CaptureItem]) -> None:
        """What is due in the step that begins."""
        self._due = items

    def captured(self) -> RoundCapture | None:
        """What the round that is ending leaves; None: the step that ends is none of ours."""
        booster, self._booster = self._booster, None
        due, self._due = self._due, ()
        return self._capture.of(booster, due) if booster is not None and due else None

    # --- inside -------------------------------------------------------------------------------------------

    def _find(self) -> object | None:
        return self._owner() if self._owner is not None else None

    def _is_ours(self, owner: object) -> bool:
        return self._owner is not None and self._owner() is owner

    def _begin(self, owner: object, *, is_announced: bool) -> None:
        """In one thread the latest training is the one that has steps; another thread's goes on."""
        before = self._find()
        if before is not None and self._thread == get_ident():
            self._end(before)
        if not self._probes.training_begins(owner):
            self._tell(_ASIDE)
            return
        self._owner, self._thread, self._is_announced = weakref.ref(owner), get_ident(), is_announced
        self._count = 0

    def _end_round(self, owner: object, booster: Booster | None, scores: Scored, *, is_last: bool) -> None:
        if not self._is_ours(owner):
            if self._find() is not None:
                return
            self._begin(owner, is_announced=True)  # we came when it was under way, or another has ended within it
            if not self._is_ours(owner):
                return
        probes = self._probes
        scored, values = scores()
        self._count += 1
        if is_last and booster is not None:
            probes.last_step("trees")
        elif self._count > 1 and probes.plain_step(owner, scored, values):
            return
        probes.scores(scored, values)
        self._booster = booster
        try:
            if booster is not None and self._count == 1:
                self._describe(booster)
            probes.before_update(owner)
            if self._count == 1:
                self._trainings += 1
                probes.event("training", {"owner": type(owner).__name__, "number": self._trainings})
            probes.after_update(owner, is_skipped=False)
        finally:
            self._booster = None

    def _describe(self, booster: Booster) -> None:
        features = booster.features
        self._document |= {
            "hyperparameters": booster.settings(),
            "features": list(features[:MOST_FEATURES_TOLD]),
            "evaluated_on": booster.evaluated_name(),
        }

    def _end(self, owner: object) -> None:
        if self._is_ours(owner):
            self._owner, self._is_announced = None, False
        self._probes.training_ends(owner)
