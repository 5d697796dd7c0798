"""Which training of boosters has the steps, and what is told of its rounds."""

from __future__ import annotations

import threading
from typing import Any

from leadline.frameworks.boosting.booster import Score
from leadline.frameworks.boosting.rounds import Rounds
from leadline.probes.guard import Guard


class Owner: ...


class Probes:
    """Notes what it is told; one training has the steps at a time."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.owner: object = None
        self.timeline = self

    def wants_loss(self) -> bool:
        return True

    def loss(self, site: object, value: object, name: str, marks: tuple[str, ...]) -> None:
        self.told.append(f"loss {name}={value} {','.join(marks)}")

    def log(self, values: dict[str, float], collection: str, marks: tuple[str, ...]) -> None:
        self.told += [f"{collection} {name}={value} {','.join(marks)}" for name, value in values.items()]

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

    def before_update(self, owner: object) -> None: ...


def make() -> tuple[Rounds, Probes, list[str]]:
    probes, notes = Probes(), []
    return Rounds(probes, Guard(notes.append), notes.append, {}), probes, notes  # type: ignore[arg-type]


def test_a_round_is_its_scores_and_a_step() -> None:
    rounds, probes, notes = make()
    owner = Owner()
    rounds.begin(owner)
    scores = [Score("held-rmse", 0.5, True, ("validation_set",)), Score("held-auc", 0.9, False, ("validation_set",))]
    for _ in range(2):
        rounds.end_round(owner, None, lambda: scores)
    rounds.end(owner)
    told = ["loss held-rmse=0.5 validation_set", "metrics held-auc=0.9 validation_set"]
    assert probes.told == [*told, "training 1", "step", *told, "step"]
    assert (probes.owner, notes) == (None, [])


def test_trainings_one_after_the_other_are_counted_also_where_one_never_says_that_it_ended() -> None:
    rounds, probes, _ = make()
    owners = [Owner() for _ in range(3)]
    for each in owners:
        rounds.begin(each)
        rounds.end_round(each, None, list)
    assert [each for each in probes.told if each != "step"] == ["training 1", "training 2", "training 3"]


def test_a_training_within_another_has_the_steps_until_it_ends() -> None:
    rounds, probes, _ = make()
    outer, inner = Owner(), Owner()
    rounds.begin(outer)
    rounds.end_round(outer, None, list)
    rounds.begin(inner)
    rounds.end_round(inner, None, list)
    rounds.end(inner)
    rounds.end_round(outer, None, list)
    assert probes.owner is outer
    assert probes.told.count("step") == 3


def test_of_two_threads_the_first_ones_rounds_are_captured_and_the_other_is_told_of() -> None:
    rounds, probes, notes = make()
    first, second = Owner(), Owner()
    rounds.begin(first)

    def other() -> None:
        rounds.begin(second)
        rounds.end_round(second, None, list)
        rounds.end(second)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    rounds.end_round(first, None, list)
    assert probes.told.count("step") == 1
    assert notes == ["another booster is trained at the same time: its rounds are not captured"]


def test_a_failure_of_ours_ends_the_watching_only() -> None:
    rounds, probes, notes = make()
    owner = Owner()
    rounds.begin(owner)

    def fail() -> list[Score]:
        raise RuntimeError("planted")

    rounds.end_round(owner, None, fail)
    rounds.end_round(owner, None, list)
    assert probes.told == []
    assert len(notes) == 1
    assert "planted" in notes[0]
