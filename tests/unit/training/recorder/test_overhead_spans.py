"""Overhead is processor time, and spans within a span count once."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from leadline.training.recorder.overhead import Overhead


@dataclass
class Time:
    """A wall clock and a processor clock that the test moves."""

    now_ns: int = 1_000
    cpu_ns: int = 5

    def overhead(self) -> Overhead:
        return Overhead(clock=lambda: self.now_ns, cpu_clock=lambda: self.cpu_ns)

    def work(self, ns: int, *, waiting_ns: int = 0) -> None:
        self.now_ns += ns + waiting_ns
        self.cpu_ns += ns


def test_a_span_within_a_span_counts_once() -> None:
    time = Time()
    overhead = time.overhead()
    outer = overhead.begin()
    time.work(10)
    inner = overhead.begin()
    time.work(5)
    assert inner == 0
    overhead.end(inner)
    assert overhead.until(time.now_ns) == 15
    overhead.end(outer, more_ns=3)
    assert overhead.own_ns == overhead.until(time.now_ns) == 18


def test_a_compilation_is_not_overhead_that_the_budget_pays() -> None:
    time = Time()
    overhead = time.overhead()
    span = overhead.begin()
    time.work(10)
    time.work(200, waiting_ns=700)
    overhead.exclude_compilation(900, 200)
    overhead.end(span)
    assert (overhead.own_ns, overhead.compile_ns) == (10, 900)


@pytest.mark.parametrize("measures_all", [True, False])
def test_waiting_for_a_processor_is_no_overhead(measures_all: bool) -> None:
    time = Time()
    overhead = time.overhead()
    overhead.measures_all = measures_all
    for _ in range(800):
        time.work(10)
        begun = overhead.begin()
        time.work(100, waiting_ns=100)
        overhead.end(begun)
    assert overhead.own_ns == pytest.approx(800 * 100, rel=0.0 if measures_all else 0.02)


def test_an_interruption_of_a_span_that_is_not_measured_is_no_overhead() -> None:
    time = Time()
    overhead = time.overhead()
    overhead.measures_all = False
    for span in range(800):
        begun = overhead.begin()
        time.work(100, waiting_ns=1_000_000 if span % 100 == 50 else 0)
        overhead.end(begun)
    assert overhead.own_ns == pytest.approx(800 * 100, rel=0.05)


def test_a_long_span_is_measured_if_it_is_known_to_be_long() -> None:
    time = Time()
    overhead = time.overhead()
    overhead.measures_all = False
    for span in range(80):
        is_long = span % 10 == 5
        begun = overhead.begin(is_measured=is_long)
        time.work(100_000 if is_long else 100, waiting_ns=500)
        overhead.end(begun)
    assert overhead.own_ns == pytest.approx(8 * 100_000 + 72 * 100, rel=0.05)


def test_without_a_measured_span_overhead_is_wall_time() -> None:
    time = Time()
    overhead = time.overhead()
    overhead.measures_all = False
    begun = overhead.begin()
    time.work(10, waiting_ns=30)
    overhead.end(begun)
    assert overhead.own_ns == 40


@pytest.mark.parametrize("length_ns", [1_000, 1_000_000])
def test_waiting_for_a_processor_is_no_overhead_within_a_span_either(length_ns: int) -> None:
    time = Time()
    overhead = time.overhead()
    for is_last in (False, True):
        time.work(2_000_000)
        begun = overhead.begin()
        time.work(length_ns, waiting_ns=9 * length_ns)
        if is_last:
            assert overhead.until(time.now_ns) == pytest.approx(2 * length_ns, rel=0.01)
        overhead.end(begun)
    assert overhead.own_ns == 2 * length_ns
