"""The step clock and its owner."""

from __future__ import annotations

from leadline.instrumentation.timeline.step_clock import SILENT_STEPS, StepClock


class Optimizer: ...


def test_the_first_optimizer_owns_the_clock() -> None:
    events: list[object] = []
    clock, first, second = StepClock(events.append), Optimizer(), Optimizer()
    assert [clock.owns(candidate) for candidate in (first, second, first, second)] == [True, False, True, False]
    assert events == []


def test_a_silent_owner_is_replaced_and_an_event_is_written() -> None:
    events: list[object] = []
    clock, first, second = StepClock(events.append), Optimizer(), Optimizer()
    clock.owns(first)
    owned = [clock.owns(second) for _ in range(SILENT_STEPS + 1)]
    assert owned == [False] * (SILENT_STEPS - 1) + [True, True]
    assert len(events) == 1


def test_many_optimizers_that_step_once_do_not_take_the_clock() -> None:
    events: list[object] = []
    clock, optimizers = StepClock(events.append), [Optimizer() for _ in range(2 * SILENT_STEPS)]
    for _ in range(3):
        assert [clock.owns(candidate) for candidate in optimizers] == [True, *[False] * (len(optimizers) - 1)]
    assert events == []


def test_a_deleted_owner_is_replaced_at_once() -> None:
    events: list[object] = []
    clock, first, second = StepClock(events.append), Optimizer(), Optimizer()
    clock.owns(first)
    del first
    assert clock.owns(second)
    assert len(events) == 1


def test_each_mode_counts_its_own_steps_and_the_global_step_all() -> None:
    clock = StepClock(lambda _: None)
    for mode in ("train", "train", "eval", "train"):
        clock.tick(mode)
    assert clock.finished == {"train": 3, "eval": 1}
    assert clock.step == 4
    assert clock.stamp().mode_step == 3


def test_a_training_that_announces_its_end_owns_the_clock_until_then() -> None:
    events: list[object] = []
    clock = StepClock(events.append)
    optimizer, booster, other = Optimizer(), Optimizer(), Optimizer()
    assert clock.owns(optimizer)
    assert clock.claim(booster)
    assert len(events) == 1
    assert not any(clock.owns(optimizer) for _ in range(3 * SILENT_STEPS))
    assert not clock.claim(other)
    assert clock.claim(booster)
    assert clock.owns(booster)
    clock.release(other)
    assert clock.owns(booster)
    clock.release(booster)
    assert clock.owns(optimizer)
    assert len(events) == 1


def test_a_training_deleted_without_an_end_releases_the_clock() -> None:
    clock = StepClock(lambda _: None)
    booster, other = Optimizer(), Optimizer()
    assert clock.claim(booster)
    del booster
    assert clock.claim(other)


def make() -> tuple[StepClock, list[object]]:
    begun: list[object] = []
    return StepClock(lambda _: None, begun.append), begun


def take(clock: StepClock, *optimizers: Optimizer) -> list[bool]:
    """Make a step of each optimizer; return which of them were counted."""
    owned = []
    for optimizer in optimizers:
        owned.append(clock.owns(optimizer))
        if owned[-1]:
            clock.tick()
    return owned


def test_each_new_owner_begins_a_training_in_its_first_step() -> None:
    clock, begun = make()
    first, second = Optimizer(), Optimizer()
    take(clock, *[first] * 12)
    assert begun == [first]
    assert take(clock, *[second] * 3) == [False, True, True], "one that appears late needs two steps in a row"
    assert begun == [first, second]
    take(clock, *[first] * (SILENT_STEPS + 1))
    assert begun == [first, second], "one that returns goes on"


def test_optimizers_that_alternate_are_one_training() -> None:
    clock, begun = make()
    critic, generator = Optimizer(), Optimizer()
    take(clock, *[critic] * 100)
    assert take(clock, *[generator, *[critic] * 5] * 20) == [False, *[True] * 5] * 20
    assert begun == [critic]


def test_two_optimizers_in_each_step_of_a_later_training() -> None:
    clock, begun = make()
    pairs = [(Optimizer(), Optimizer()) for _ in range(2)]
    for first, second in pairs:
        take(clock, *[first, second] * 20)
    assert begun == [pairs[0][0], pairs[1][0]]
    assert clock.train_step == 39


def test_a_claimed_training_begins_with_its_first_step() -> None:
    clock, begun = make()
    boosters = [Optimizer() for _ in range(3)]
    for booster in boosters:
        assert clock.claim(booster)
        if booster is not boosters[1]:
            take(clock, booster, booster)
        clock.release(booster)
    assert begun == [boosters[0], boosters[2]]


def taking_over(clock_of: list[object]) -> StepClock:
    """Return a clock whose optimizers all show that the owner's training is over, but for the first of the list."""
    return StepClock(lambda _: None, takes_over=lambda optimizer: optimizer is not clock_of[0])


def test_trainings_in_turn_are_counted_from_their_first_steps() -> None:
    clients = [Optimizer() for _ in range(4)]
    clock = taking_over([None])
    for _ in range(3):
        for client in clients:
            assert take(clock, *[client] * 5) == [True] * 5
    assert clock.train_step == 60


def test_an_owner_that_made_one_step_gives_the_clock_back() -> None:
    whole, head = Optimizer(), Optimizer()
    clock = taking_over([None])
    assert take(clock, *[*[whole] * 5, head] * 3) == [True] * 18
    clock = taking_over([whole])
    assert take(clock, *[*[whole] * 5, head] * 3) == [True] * 18


def test_optimizers_of_one_step_do_not_take_over() -> None:
    policy, value = Optimizer(), Optimizer()
    clock = taking_over([None])
    assert take(clock, *[policy, value] * 20) == [True, False] * 20


def test_a_training_that_follows_two_optimizers_which_took_turns_is_counted_from_its_first_step() -> None:
    policy, value, third = Optimizer(), Optimizer(), Optimizer()
    clock = taking_over([value])
    assert take(clock, *[policy, value] * 20) == [True, False] * 20
    assert take(clock, *[third] * 5) == [True] * 5
    clock = taking_over([value])
    assert take(clock, *[policy, value] * 5, third) == [*[True, False] * 5, False], "it may be one more of each step"
