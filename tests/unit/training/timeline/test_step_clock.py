"""The step clock and its owner."""

from __future__ import annotations

from leadline.training.timeline.step_clock import SILENT_STEPS, StepClock


class Optimizer: ...


def test_the_first_optimizer_owns_the_clock() -> None:
    told: list[str] = []
    clock, first, second = StepClock(told.append), Optimizer(), Optimizer()
    assert [clock.owns(each) for each in (first, second, first, second)] == [True, False, True, False]
    assert told == []


def test_a_silent_owner_is_replaced_and_told() -> None:
    told: list[str] = []
    clock, first, second = StepClock(told.append), Optimizer(), Optimizer()
    clock.owns(first)
    owned = [clock.owns(second) for _ in range(SILENT_STEPS + 1)]
    assert owned == [False] * (SILENT_STEPS - 1) + [True, True]
    assert told == ["Optimizer"]


def test_many_optimizers_that_step_once_each_leave_the_owner_its_clock() -> None:
    told: list[str] = []
    clock, optimizers = StepClock(told.append), [Optimizer() for _ in range(2 * SILENT_STEPS)]
    for _ in range(3):
        assert [clock.owns(each) for each in optimizers] == [True, *[False] * (len(optimizers) - 1)]
    assert told == []


def test_an_owner_that_is_gone_is_replaced_at_once() -> None:
    told: list[str] = []
    clock, first, second = StepClock(told.append), Optimizer(), Optimizer()
    clock.owns(first)
    del first
    assert clock.owns(second)
    assert told == ["Optimizer"]


def test_each_mode_counts_its_own_steps_and_the_global_step_all() -> None:
    clock = StepClock(lambda _: None)
    for mode in ("train", "train", "eval", "train"):
        clock.tick(mode)
    assert clock.finished == {"train": 3, "eval": 1}
    assert clock.step == 4
    assert clock.stamp().mode_step == 3


def test_a_training_that_says_when_it_ends_owns_the_clock_until_then() -> None:
    told: list[str] = []
    clock = StepClock(told.append)
    optimizer, booster, other = Optimizer(), Optimizer(), Optimizer()
    assert clock.owns(optimizer)
    assert clock.claim(booster)
    assert told == ["Optimizer"]
    assert not any(clock.owns(optimizer) for _ in range(3 * SILENT_STEPS))
    assert not clock.claim(other)
    assert clock.claim(booster)
    assert clock.owns(booster)
    clock.release(other)
    assert clock.owns(booster)
    clock.release(booster)
    assert clock.owns(optimizer)
    assert told == ["Optimizer"]


def test_one_that_is_gone_without_a_word_lets_the_next_have_it() -> None:
    clock = StepClock(lambda _: None)
    booster, other = Optimizer(), Optimizer()
    assert clock.claim(booster)
    del booster
    assert clock.claim(other)
