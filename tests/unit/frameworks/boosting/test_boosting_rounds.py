"""Reporting of boosting rounds to the step callbacks."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from leadline.frameworks.adapter import Score
from leadline.frameworks.boosting.booster import BoosterConstants
from leadline.frameworks.boosting.rounds import Rounds
from leadline.instrumentation.guard import Facts, Guard

SCORES = (Score("held-rmse", 0.5, True, ("validation_set",)), Score("held-auc", 0.9, False, ("validation_set",)))


class Owner: ...


class Booster:
    constants = BoosterConstants("", "", ())

    def settings(self) -> dict[str, float]:
        return {}

    def evaluation_name(self) -> None:
        return None


class Callbacks:
    """Records the calls; one training owns the steps at a time."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.owner: object = None
        self.timeline = self
        self.facts = Facts(self.calls.append, int)

    def record_scores(self, scores: Sequence[Score]) -> None:
        self.calls += [f"{score.name}={score.value}" for score in scores]

    def capture_last_step(self, family: str) -> None:
        self.calls.append("last")

    def begin_training(self, owner: object) -> bool:
        if self.owner not in (None, owner):
            return False
        if self.owner is not owner:
            self.calls.append("training")
        self.owner = owner
        return True

    def end_training(self, owner: object) -> None:
        self.owner = None if self.owner is owner else self.owner

    def after_update(self, owner: object, *, is_skipped: bool) -> None:
        self.calls.append("step")

    def begin_update(self) -> None: ...

    def end_update(self) -> None: ...

    def wants_checks(self) -> bool:
        return False

    def end_forward(self) -> None:
        self.calls.append("scored")

    def before_update(self, owner: object) -> None: ...


def scored() -> Sequence[Score]:
    return SCORES


def nothing() -> Sequence[Score]:
    return ()


def make() -> tuple[Rounds, Callbacks, list[str]]:
    callbacks, warnings = Callbacks(), []
    return Rounds(callbacks, Guard(warnings.append), warnings.append, {}), callbacks, warnings  # type: ignore[arg-type]


def test_a_round_is_its_scores_and_a_step() -> None:
    rounds, callbacks, warnings = make()
    owner = Owner()
    rounds.begin(owner)
    rounds.end_scoring(Owner())
    for _ in range(2):
        rounds.end_scoring(owner)
        rounds.end_round(owner, None, scored)
    rounds.end(owner)
    # like a fold: a booster that is scored within a training belongs to it
    assert callbacks.calls[:2] == ["training", "scored"]
    scoring = ["scored", "held-rmse=0.5", "held-auc=0.9"]
    assert callbacks.calls[2:] == [*scoring, "step", *scoring, "step"]
    assert (callbacks.owner, warnings) == (None, [])


def test_the_last_round_is_announced_so_that_what_is_due_later_is_captured_at_it() -> None:
    rounds, callbacks, _ = make()
    owner, booster = Owner(), Booster()
    rounds.begin(owner)
    for index in range(3):
        rounds.end_round(owner, booster, nothing, is_last=index == 2)  # type: ignore[arg-type]
    assert callbacks.calls == ["training", "step", "step", "last", "step"]


def test_consecutive_trainings_begin_one_by_one_even_if_one_never_reports_its_end() -> None:
    rounds, callbacks, _ = make()
    owners = [Owner() for _ in range(3)]
    for owner in owners:
        rounds.begin(owner)
        rounds.end_round(owner, None, nothing)
    assert callbacks.calls == ["training", "step"] * 3


def test_a_nested_training_owns_the_steps_until_it_ends() -> None:
    rounds, callbacks, _ = make()
    outer, inner = Owner(), Owner()
    rounds.begin(outer)
    rounds.end_round(outer, None, nothing)
    rounds.begin(inner)
    rounds.end_round(inner, None, nothing)
    rounds.end(inner)
    rounds.end_round(outer, None, nothing)
    assert callbacks.owner is outer
    assert callbacks.calls.count("step") == 3


def test_of_two_threads_the_first_is_captured_and_the_other_reported() -> None:
    rounds, callbacks, warnings = make()
    first, second = Owner(), Owner()
    rounds.begin(first)

    def other() -> None:
        rounds.begin(second)
        rounds.end_round(second, None, nothing)
        rounds.end(second)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    rounds.end_round(first, None, nothing)
    assert callbacks.calls.count("step") == 1
    assert warnings == ["another booster is trained at the same time: its rounds are not captured"]


def test_scores_that_cannot_be_read_are_absent_and_the_rounds_are_counted() -> None:
    rounds, callbacks, warnings = make()
    owner = Owner()
    rounds.begin(owner)

    def fail() -> Sequence[Score]:
        raise RuntimeError("planted")

    rounds.end_round(owner, None, fail)
    rounds.end_round(owner, None, nothing)
    assert warnings == []
    assert callbacks.calls.count("step") == 2
    (note,) = [call for call in callbacks.calls if call.startswith("scores are not captured at step 0: ")]
    assert "RuntimeError: planted (" in note
