"""Calls of hooks that are made later, those of several steps at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import Any, Final, Protocol

from leadline.instrumentation.timeline.step_clock import StepClock
from leadline.instrumentation.timeline.step_timeline import StepTimeline
from leadline.records.clocks import wall_offset_ns


class OverheadSpans(Protocol):
    """The measurement of the overhead; spans within a span count once.

    Attributes:
        own_ns: The overhead so far, without the current span.
        clock: The clock of the spans.
        measures_all: Whether every span is measured: more than losses may be captured in the current step.
    """

    own_ns: int
    measures_all: bool

    @property
    def clock(self) -> Callable[[], int]: ...

    def begin(self, *, is_measured: bool = False) -> int:
        """Begin a span of overhead; return the time, 0 within another span.

        Args:
            is_measured: Whether its processor time is measured in any case: it is longer than others.
        """

    def end(self, begun_ns: int, more_ns: int = 0) -> None:
        """End the span that began at ``begun_ns``.

        Args:
            more_ns: Overhead outside the span.
        """

    def exclude_compilation(self, took_ns: int, cpu_ns: int) -> None:
        """Count time within the current span as that of a compilation; see ``Overhead``."""

    def discard(self, begun_ns: int) -> None:
        """End the span that began at ``begun_ns`` without counting it: it was another thread's."""


class DeferredCalls:
    """Holds the calls of hooks at steps at which nothing is captured, and makes them later, as if it were then.

    After a step of the training its data has replaced Leadline's in the processor's caches, so that a hook takes
    several times as long as in a loop. Calls that are made together share the caches.

    **In order** - ``Guard`` makes all deferred calls before any other call; after that none is deferred until a step
    ends that was recorded at once.

    **Not for long** - the writer makes them before it writes, four times per second.

    Attributes:
        stop: Makes the deferred calls, under the guard's lock, and defers none until the recorder allows it again.
        steps: How many of the next steps may be deferred, the current one included; the end of the last one is not.
        thread: Its steps are deferred.
        calls: When the hook of each call began, when it ended, function and arguments of the call.
        call_ns: What calling a hook costs beside the time in between.
    """

    def __init__(self, overhead: OverheadSpans, timeline: StepTimeline, clock: StepClock) -> None:
        self.steps = 0
        self.stop: Callable[[], None] = lambda: None
        self.calls: deque[tuple[int, int, Callable[..., object], tuple[Any, ...]]] = deque()
        self.call_ns = 0
        self._overhead, self._timeline, self._clock = overhead, timeline, clock
        self.thread = 0

    def allow(self, steps: int) -> None:
        """Defer the next steps of this thread."""
        self.steps, self.thread = steps, get_ident()

    def make(self) -> None:
        """Make the calls in order, each at its time and with the overhead of then; only under the guard's lock."""
        calls, timeline, clock, overhead = self.calls, self._timeline, self._clock, self._overhead
        past = _Past(wall_offset_ns(overhead.clock))
        before = timeline.clock, timeline.own, clock.wall_clock
        timeline.clock, timeline.own, clock.wall_clock = past.clock, past, past.wall_clock
        timeline.is_in_past = True
        is_own_thread = get_ident() == self.thread
        begun_ns, call_ns = overhead.begin(is_measured=True), self.call_ns
        try:
            while calls:  # the training's thread may add more
                past.now_ns, ended_ns, function, args = calls.popleft()
                past.own_ns = overhead.own_ns
                overhead.own_ns += min(ended_ns - past.now_ns, _LONGEST_NS) + call_ns
                function(*args)
        finally:
            timeline.clock, timeline.own, clock.wall_clock = before
            timeline.is_in_past = False
            if is_own_thread:
                overhead.end(begun_ns)
            else:
                overhead.discard(begun_ns)


_LONGEST_NS: Final = 100_000
"""What takes a hook longer than this are other processes that interrupt it."""


class _Past:
    """The time and the overhead of a deferred call."""

    __slots__ = ("_offset_ns", "now_ns", "own_ns")

    def __init__(self, offset_ns: int) -> None:
        """
        Args:
            offset_ns: From the clock of the timeline to the wall clock.
        """
        self.now_ns = self.own_ns = 0
        self._offset_ns = offset_ns

    def clock(self) -> int:
        return self.now_ns

    def wall_clock(self) -> int:
        return self.now_ns + self._offset_ns

    def until(self, now_ns: int) -> int:
        return self.own_ns
