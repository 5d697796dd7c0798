"""Measurement of the overhead in total."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_SAMPLES: Final = 7
"""One span in eight is measured where not all are."""
_LONG_NS: Final = 100_000
"""Within a span of this length that is measured the processor time is read, otherwise estimated."""
_MOST: Final = 4
"""A span that is not measured is taken to be at most this multiple of the mean of those that are."""


@dataclass(slots=True)
class Overhead:
    """The processor time that Leadline takes in the training's thread.

    The processor time of all spans of a step that captures is measured, and of one span in eight elsewhere: reading it
    is a system call, which takes longer than many a span. The time of the rest is the wall time, multiplied by the
    share of the latter in which the thread had a processor: what other processes take is not Leadline's. A span that
    is much longer than the measured ones was interrupted by other processes.
    """

    own_ns: int = 0
    compile_ns: int = 0
    """The time in which programs that capture were compiled, beside ``own_ns``."""
    loop_ns: int = 0
    writer_ns: int = 0
    """The processor time of the writer's thread, beside ``own_ns``; set by that thread."""
    clock: Callable[[], int] = time.perf_counter_ns
    cpu_clock: Callable[[], int] | None = None
    """Returns the processor time of the calling thread; None: as the clock does, for a clock of a test."""
    begun_ns: int = 0
    """When the current span began; 0: there is none."""
    first_ns: int = 0
    """When the first span began; 0: there was none."""
    measures_all: bool = True
    """Whether every span is measured."""
    _spans: int = 0
    _begun_cpu_ns: int = -1
    """The processor time at the beginning of the current span; -1: not taken."""
    _is_typical: bool = False
    """Whether the current span says something about those that are not measured."""
    _typical_spans: int = 0
    _typical_ns: int = 1
    _typical_cpu_ns: int = 1

    def __post_init__(self) -> None:
        if self.cpu_clock is None:
            self.cpu_clock = time.thread_time_ns if self.clock is time.perf_counter_ns else self.clock

    def begin(self, *, is_measured: bool = False) -> int:
        """Begin a span of overhead; return the time, 0 within another span.

        Args:
            is_measured: Whether the span is measured in any case: it is longer than others.
        """
        if self.begun_ns:
            return 0
        now = self.clock()
        self._spans += 1
        is_sampled = not self._spans & _SAMPLES
        if self.measures_all or is_measured or is_sampled:
            assert self.cpu_clock is not None
            self._begun_cpu_ns, self._is_typical = self.cpu_clock(), not is_measured
        self.first_ns = self.first_ns or now
        self.begun_ns = now
        return now

    def end(self, begun_ns: int, more_ns: int = 0) -> None:
        """End the span that began at ``begun_ns``; 0: within another span.

        Args:
            more_ns: Overhead outside the span, such as that of calling the function that it measures.
        """
        if begun_ns:
            now = self.clock()
            if self._begun_cpu_ns >= 0:
                assert self.cpu_clock is not None
                own_ns = min(self.cpu_clock() - self._begun_cpu_ns, now - begun_ns)
                # captures take longer than other spans, and also wait for files and threads
                if self._is_typical and (not self.measures_all or now - begun_ns < _LONG_NS):
                    self._typical_spans += 1
                    self._typical_ns += now - begun_ns
                    self._typical_cpu_ns += own_ns
                self._begun_cpu_ns = -1
            else:
                own_ns = self._estimate(now - begun_ns)
            self.own_ns += own_ns + more_ns
            self.loop_ns = now - self.first_ns
            self.begun_ns = 0

    def exclude_compilation(self, took_ns: int, cpu_ns: int) -> None:
        """Count time within the current span as that of a compilation, which the budget does not pay.

        Args:
            took_ns: Its time.
            cpu_ns: Its processor time in this thread.
        """
        self.own_ns -= cpu_ns
        self.compile_ns += took_ns

    def include(self, own_ns: int) -> None:
        """Add time that other threads took, for which the training waited."""
        self.own_ns += own_ns

    def discard(self, begun_ns: int) -> None:
        """End the span that began at ``begun_ns`` without counting it: it was another thread's."""
        if begun_ns:
            self.begun_ns, self._begun_cpu_ns = 0, -1

    def add(self, own_ns: int, begun_ns: int) -> None:
        """Add overhead within the training's own code.

        Args:
            own_ns: Its processor time.
            begun_ns: When it began; 0 if there was none.
        """
        self.own_ns += own_ns
        if begun_ns:
            self.first_ns = min(self.first_ns or begun_ns, begun_ns)

    def until(self, now_ns: int) -> int:
        """Return ``own_ns`` including the current span."""
        if not self.begun_ns:
            return self.own_ns
        span_ns = now_ns - self.begun_ns
        if span_ns > _LONG_NS and self._begun_cpu_ns >= 0:
            assert self.cpu_clock is not None
            return self.own_ns + min(self.cpu_clock() - self._begun_cpu_ns, span_ns)
        return self.own_ns + self._estimate(span_ns)

    def _estimate(self, span_ns: int) -> int:
        """Return the processor time of a span that is not measured."""
        own_ns = span_ns * self._typical_cpu_ns // self._typical_ns
        spans = self._typical_spans
        return min(own_ns, _MOST * self._typical_cpu_ns // spans) if spans else own_ns
