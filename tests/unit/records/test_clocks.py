"""The offset of the wall clock, read while other threads and processes interrupt."""

from __future__ import annotations

import time

import pytest

from leadline.records.clocks import wall_offset_ns

OFFSET_NS = 1_700_000_000_000_000_000
READING_NS = 50
INTERRUPTED_NS = 7_000_000


class InterruptedClocks:
    """A clock and the wall clock; before some readings, counted together, another process runs."""

    def __init__(self, *interrupted: int) -> None:
        self._now, self._readings, self._interrupted = 1_000, 0, interrupted

    def clock(self) -> int:
        self._now += READING_NS + INTERRUPTED_NS * (self._readings in self._interrupted)
        self._readings += 1
        return self._now

    def wall_clock(self) -> int:
        return self.clock() + OFFSET_NS


@pytest.mark.parametrize("interrupted", [(), (0,), (1,), (2,), (1, 5, 7), (1, 4, 7, 10), (2, 5, 8, 11)])
def test_an_interruption_between_the_readings_does_not_move_the_offset(interrupted: tuple[int, ...]) -> None:
    clocks = InterruptedClocks(*interrupted)
    assert wall_offset_ns(clocks.clock, clocks.wall_clock) == OFFSET_NS


def test_if_every_attempt_is_interrupted_there_is_an_offset_nevertheless() -> None:
    clocks = InterruptedClocks(*range(100))
    assert abs(wall_offset_ns(clocks.clock, clocks.wall_clock) - OFFSET_NS) <= INTERRUPTED_NS


def test_the_offset_of_the_real_clocks_is_that_of_the_wall_clock() -> None:
    before = time.time_ns() - time.perf_counter_ns()
    offset = wall_offset_ns()
    assert abs(offset - before) < 10_000_000_000
