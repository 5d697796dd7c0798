"""Which training of boosters has the steps, and what is told of its rounds."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from leadline.frameworks.boosting.rounds import Rounds
from leadline.frameworks.scores import Score, Scores
from leadline.training.guard import Guard

SCORES = (Score("held-rmse", True, ("validation_set",)), Score("held-auc", False, ("validation_set",)))


class Owner: ...


class Booster:
    features = ()

    def settings(self) -> dict[str, float]:
        return {}

    def evaluated_name(self) -> None:
        return None


class Probes:
    """Notes what it is told; one training has the steps at a time."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.owner: object = None
        self.is_plain = False
        self.timeline = self

    def scores(self, scores: Scores, values: Sequence[float]) -> None:
        self.told += [f"{each.name}={value}" for each, value in zip(scores, values, strict=True)]

    def plain_step(self, owner: object, scores: Scores, values: Sequence[float]) -> bool:
        if self.is_plain:
            self.told.append("plain")
        return self.is_plain

    def last_step(self, family: str) -> None:
        self.told.append("last")

    def training_begins(self, owner: object) -> bool:
        if self.owner not in (None, owner):
            return False
        self.owner = owner
        return True

    def training_ends(self, owner: object) -> None:
        self.owner = None if self.owner is owner else self.owner

    def after_update(self, owner: object, *, is_skipped: bool) -> None:
        self.told.append("step")

    def event(self, name: str, args: dict[str, Any]) -> None:
        self.told.append(f"{name} {args['number']}")

    def begin_update(self) -> None: ...

    def end_update(self) -> None: ...

    def end_forward(self) -> None:
        self.told.append("scored")

    def before_update(self, owner: object) -> None: ...


def scored() -> tuple[Scores, Sequence[float]]:
    return SCORES, (0.5, 0.9)


def nothing() -> tuple[Scores, Sequence[float]]:
    return (), ()


def make() -> tuple[Rounds, Probes, list[str]]:
    probes, notes = Probes(), []
    return Rounds(probes, Guard(notes.append), notes.append, {}), probes, notes  # type: ignore[arg-type]


def test_a_round_is_its_scores_and_a_step() -> None:
    rounds, probes, notes = make()
    owner = Owner()
    rounds.begin(owner)
    rounds.end_scoring(Owner())
    for _ in range(2):
        rounds.end_scoring(owner)
        rounds.end_round(owner, None, scored)
    rounds.end(owner)
    assert probes.told[0] == "scored"  # a fold's, as it were: within a training whoever is scored belongs to it
    told = ["scored", "held-rmse=0.5", "held-auc=0.9"]
    assert probes.told[1:] == [*told, "training 1", "step", *told, "step"]
    assert (probes.owner, notes) == (None, [])


def test_a_round_that_is_plain_is_told_in_one_go_but_for_the_first_and_the_last() -> None:
    rounds, probes, _ = make()
    probes.is_plain = True
    owner, booster = Owner(), Booster()
    rounds.begin(owner)
    for at in range(3):
        rounds.end_round(owner, booster, nothing, is_last=at == 2)  # type: ignore[arg-type]
    assert probes.told == ["training 1", "step", "plain", "last", "step"]


def test_trainings_one_after_the_other_are_counted_also_where_one_never_says_that_it_ended() -> None:
    rounds, probes, _ = make()
    owners = [Owner() for _ in range(3)]
    for each in owners:
        rounds.begin(each)
        rounds.end_round(each, None, nothing)
    assert [each for each in probes.told if each != "step"] == ["training 1", "training 2", "training 3"]


def test_a_training_within_another_has_the_steps_until_it_ends() -> None:
    rounds, probes, _ = make()
    outer, inner = Owner(), Owner()
    rounds.begin(outer)
    rounds.end_round(outer, None, nothing)
    rounds.begin(inner)
    rounds.end_round(inner, None, nothing)
    rounds.end(inner)
    rounds.end_round(outer, None, nothing)
    assert probes.owner is outer
    assert probes.told.count("step") == 3


def test_of_two_threads_the_first_ones_rounds_are_captured_and_the_other_is_told_of() -> None:
    rounds, probes, notes = make()
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
    assert probes.told.count("step") == 1
    assert notes == ["another booster is trained at the same time: its rounds are not captured"]


def test_a_failure_of_ours_ends_the_watching_only() -> None:
    rounds, probes, notes = make()
    owner = Owner()
    rounds.begin(owner)

    def fail() -> tuple[Scores, Sequence[float]]:
        raise RuntimeError("planted")

    rounds.end_round(owner, None, fail)
    rounds.end_round(owner, None, nothing)
    assert probes.told == []
    assert len(notes) == 1
    assert "planted" in notes[0]
