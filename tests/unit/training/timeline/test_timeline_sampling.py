"""Which steps are written of trainings of every speed."""

from __future__ import annotations

import pytest

from leadline.training.timeline.sampling import STEPS_PER_SECOND, TimelineSampler

SECOND = 1_000_000_000


def play(pace: TimelineSampler, seconds: float, step_ns: int, slow: frozenset[int] = frozenset()) -> dict[int, int]:
    """The weights of the steps that are written; slow steps take ten times as long."""
    now, step, found = 0, 0, {}
    while now < seconds * SECOND:
        duration = step_ns * (10 if step in slow else 1)
        now += duration
        weight = pace.weight(step, duration, now)
        if weight:
            found[step] = weight
        step += 1
    found[-1] = step
    return found


@pytest.mark.parametrize("step_ns", [SECOND, SECOND // STEPS_PER_SECOND])
def test_steps_that_are_not_fast_are_all_written(step_ns: int) -> None:
    found = play(TimelineSampler(0), 20, step_ns)
    steps = found.pop(-1)
    assert len(found) == steps
    assert set(found.values()) == {1}


def test_a_short_fast_training_is_written_whole() -> None:
    found = play(TimelineSampler(0), 0.2, 100_000)
    assert len(found) - 1 == found.pop(-1) == 2_000


@pytest.mark.parametrize("step_ns", [50_000, 120_000, 1_000_000, 3_000_000])
def test_a_fast_one_is_written_at_a_bounded_pace_and_each_step_is_stood_for(step_ns: int) -> None:
    seconds = 60
    found = play(TimelineSampler(0), seconds, step_ns)
    steps = found.pop(-1)
    assert len(found) <= STEPS_PER_SECOND * seconds * 1.2 + 6_000
    assert len(found) >= STEPS_PER_SECOND * seconds * 0.2
    assert sum(found.values()) == pytest.approx(steps, rel=0.05)


def test_what_is_written_meets_no_period_of_the_training() -> None:
    found = play(TimelineSampler(0), 120, 100_000)
    found.pop(-1)
    for period in (2, 3, 4, 8, 10, 50, 64, 100):
        share = sum(weight for step, weight in found.items() if step % period == 0) / sum(found.values())
        assert share == pytest.approx(1 / period, rel=0.25), period


def test_slow_steps_are_written_whatever_their_number() -> None:
    slow = frozenset(range(100_000, 600_000, 10_007))
    found = play(TimelineSampler(0), 60, 100_000, slow)
    assert slow <= found.keys()
    assert {found[step] for step in slow} == {1}


def test_ranks_of_different_speed_choose_steps_that_are_among_each_others() -> None:
    fast, slow = TimelineSampler(0), TimelineSampler(0)
    fast.every, slow.every = 16, 4
    chosen = {step for step in range(10_000) if fast.chooses(step)}
    assert chosen < {step for step in range(10_000) if slow.chooses(step)}
    assert len(chosen) == pytest.approx(10_000 / 16, rel=0.1)


def test_a_training_of_two_thousand_steps_is_written_whole_however_fast() -> None:
    for step_ns in (120_000, 500_000, 4_000_000):
        pace, now = TimelineSampler(0), 0
        weights = []
        for step in range(2_000):
            now += step_ns
            weights.append(pace.weight(step, step_ns, now))
        assert weights == [1] * 2_000, step_ns
