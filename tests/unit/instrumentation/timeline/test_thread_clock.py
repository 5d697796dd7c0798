"""Times of a thread as the kernel counts them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from leadline.instrumentation.timeline.thread_clock import UNKNOWN, SampledSteps, ThreadClock

STATISTICS = Path("/proc/thread-self/schedstat")


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def run_delay() -> int:
    return int(STATISTICS.read_text().split()[1])


def bracketed(clock: ThreadClock) -> tuple[bool, bool]:
    """Return whether ready time and run delay are between those read before and after."""
    before_delay, before = run_delay(), time.thread_time_ns()
    ready, delay = clock(), clock.run_delay_ns
    after, after_delay = time.thread_time_ns(), run_delay()
    return before + before_delay <= ready <= after + after_delay, before_delay <= delay <= after_delay


@pytest.mark.skipif(not STATISTICS.exists(), reason="the kernel has no statistics of the scheduler")
def test_the_times_are_those_of_the_thread(thread: ThreadPoolExecutor) -> None:
    clock = ThreadClock()
    assert bracketed(clock) == (True, True)

    def elsewhere() -> tuple[bool, bool]:
        clock.take_thread()
        return bracketed(clock)

    assert thread.submit(elsewhere).result() == (True, True)


def test_without_statistics_it_is_the_processor_time(thread: ThreadPoolExecutor) -> None:
    def closed() -> tuple[int, int, int, int]:
        clock = ThreadClock()
        os.closerange(clock._descriptor, clock._descriptor + 1)  # as a script that becomes a daemon does
        before = time.thread_time_ns()
        return before, clock(), time.thread_time_ns(), clock.run_delay_ns

    before, ready, after, delay = thread.submit(closed).result()
    assert before <= ready <= after
    assert delay == UNKNOWN


def test_one_descriptor_is_open_for_each_thread() -> None:
    assert ThreadClock()._descriptor == ThreadClock()._descriptor


def sampled(first_step: int, step_ns: int, every: int, *, steps: int) -> list[int]:
    chosen = SampledSteps()
    return [step for step in range(first_step, first_step + steps) if chosen.begin(step, (step + 1) * step_ns, every)]


def test_the_first_steps_and_some_later_ones_are_sampled() -> None:
    assert sampled(0, 300_000_000, 1, steps=60) == [*range(8), 24, 41, 58]


def test_a_resumed_run_has_first_steps_too() -> None:
    assert sampled(5000, 300_000_000, 1, steps=30) == [*range(5000, 5008), 5024]


@pytest.mark.parametrize("step_ms", [0.05, 1, 5, 12])
def test_two_written_steps_per_second_are_sampled_of_a_fast_training(step_ms: float) -> None:
    every = max(1, round(1000 / step_ms / 200))
    seconds = 60
    chosen = sampled(0, int(step_ms * 1e6), every, steps=round(1000 * seconds / step_ms))
    assert len(chosen) / every / seconds == pytest.approx(2.5, abs=0.5)


def test_steps_until_the_next_sample() -> None:
    chosen = SampledSteps()
    for step in range(8):
        assert chosen.begin(step, step * 1_000_000_000, 1)
        assert chosen.steps_until_next(step) == 0
    assert [chosen.steps_until_next(step) for step in range(8, 25)] == [*range(16, -1, -1)]
    assert [step for step in range(8, 40) if chosen.begin(step, step * 1_000_000_000, 1)] == [24]
