"""Sampling of step times at every speed of training."""

from __future__ import annotations

import pytest

from leadline.instrumentation.timeline.sampling import STEPS_PER_SECOND, TimelineSampler

SECOND = 1_000_000_000


def play(sampler: TimelineSampler, seconds: float, step_ns: int, slow: frozenset[int] = frozenset()) -> dict[int, int]:
    """Return the weights of the written steps; slow steps take ten times as long."""
    now, step, weight_by_step = 0, 0, {}
    while now < seconds * SECOND:
        duration = step_ns * (10 if step in slow else 1)
        now += duration
        weight = sampler.weight(step, duration, now)
        if weight:
            weight_by_step[step] = weight
        step += 1
    weight_by_step[-1] = step
    return weight_by_step


@pytest.mark.parametrize("step_ns", [SECOND, SECOND // STEPS_PER_SECOND])
def test_all_steps_of_slow_trainings_are_written(step_ns: int) -> None:
    weight_by_step = play(TimelineSampler(0), 20, step_ns)
    steps = weight_by_step.pop(-1)
    assert len(weight_by_step) == steps
    assert set(weight_by_step.values()) == {1}


def test_a_short_fast_training_is_written_completely() -> None:
    weight_by_step = play(TimelineSampler(0), 0.2, 100_000)
    assert len(weight_by_step) - 1 == weight_by_step.pop(-1) == 2_000


@pytest.mark.parametrize("step_ns", [50_000, 120_000, 1_000_000, 3_000_000])
def test_a_fast_training_is_sampled_at_a_bounded_rate_and_weights_cover_all_steps(step_ns: int) -> None:
    seconds = 60
    weight_by_step = play(TimelineSampler(0), seconds, step_ns)
    steps = weight_by_step.pop(-1)
    assert len(weight_by_step) <= STEPS_PER_SECOND * seconds * 1.2 + 6_000
    assert len(weight_by_step) >= STEPS_PER_SECOND * seconds * 0.2
    assert sum(weight_by_step.values()) == pytest.approx(steps, rel=0.15), "of at least some hundred samples"


def test_sampling_does_not_alias_with_periods_of_the_training() -> None:
    weight_by_step = play(TimelineSampler(0), 120, 100_000)
    weight_by_step.pop(-1)
    for period in (2, 3, 4, 8, 10, 50, 64, 100):
        share = sum(weight for step, weight in weight_by_step.items() if step % period == 0) / sum(
            weight_by_step.values()
        )
        assert share == pytest.approx(1 / period, rel=0.25), period


def test_slow_steps_are_always_written() -> None:
    slow = frozenset(range(100_000, 600_000, 10_007))
    weight_by_step = play(TimelineSampler(0), 60, 100_000, slow)
    assert slow <= weight_by_step.keys()
    assert {weight_by_step[step] for step in slow} == {1}


def test_ranks_of_different_speed_select_subsets_of_the_same_steps() -> None:
    fast, slow = TimelineSampler(0), TimelineSampler(0)
    fast.every, slow.every = 16, 4
    chosen = {step for step in range(10_000) if fast.chooses(step)}
    assert chosen < {step for step in range(10_000) if slow.chooses(step)}
    assert len(chosen) == pytest.approx(10_000 / 16, rel=0.1)


def test_two_thousand_steps_are_written_completely_at_any_speed() -> None:
    for step_ns in (120_000, 500_000, 4_000_000):
        sampler, now = TimelineSampler(0), 0
        weights = []
        for step in range(2_000):
            now += step_ns
            weights.append(sampler.weight(step, step_ns, now))
        assert weights == [1] * 2_000, step_ns
