"""Processor time and run delay of the thread whose steps are timed."""

from __future__ import annotations

import os
import time
from functools import cache
from threading import get_native_id
from typing import Final

UNKNOWN: Final = -1
_CLOSED: Final = -1
_FIRST_STEPS: Final = 8
_LEAST_STEPS: Final = 17
_INTERVAL_NS: Final = 400_000_000
"""Between two sampled steps that are written."""


class ThreadClock:
    """The time for which a thread used a processor, or was ready to but waited for one (its run delay).

    What a phase takes beyond it is waiting for something else: data, a lock, another process. On an overloaded machine
    the run delay is most of the time; without it, a thread that computes would seem to wait.

    **Never fails** - where the run delay cannot be read, this is the processor time alone.

    Units:
        Nanoseconds since the thread began.
    Source:
        Linux, ``Documentation/scheduler/sched-stats.rst``: the second field of ``/proc/<pid>/task/<tid>/schedstat``.
    """

    def __init__(self) -> None:
        self.run_delay_ns = UNKNOWN
        """The run delay at the last call; -1: unknown."""
        self._descriptor = _CLOSED
        self.take_thread()

    def take_thread(self) -> None:
        """Read the times of the calling thread from now on."""
        self._descriptor = _open_statistics(os.getpid(), get_native_id())

    def __call__(self) -> int:
        """Return the time of the calling thread."""
        if self._descriptor != _CLOSED:
            try:
                self.run_delay_ns = int(os.pread(self._descriptor, 64, 0).split(None, 2)[1])
            except (OSError, ValueError, IndexError):  # a script that becomes a daemon closes all descriptors
                self._descriptor, self.run_delay_ns = _CLOSED, UNKNOWN
        return time.thread_time_ns() + max(self.run_delay_ns, 0)


class SampledSteps:
    """The steps in which the thread's times are taken: the first eight, then one in 17, or some two per second.

    Of a fast training not every step is written: the two per second are written ones.

    Reading them in each phase of a step takes some 20 µs, and such a step is not deferred.
    """

    def __init__(self) -> None:
        self._count = self._next_step = self._last_step = self._last_ns = 0

    def begin(self, step: int, now_ns: int, every: int) -> bool:
        """Begin a step; return whether it is sampled.

        Args:
            every: One in so many steps is written.
        """
        if step < self._next_step:
            return False
        self._count += 1
        interval = 1
        if self._count >= _FIRST_STEPS:
            step_ns = max(now_ns - self._last_ns, 1) // max(step - self._last_step, 1) + 1
            interval = max(_LEAST_STEPS, _INTERVAL_NS // (step_ns * every)) | 1  # as few periods in common as may be
        self._next_step, self._last_step, self._last_ns = step + interval, step, now_ns
        return True

    def steps_until_next(self, step: int) -> int:
        """Return how many steps from ``step`` on, which has begun, come before the next one that is sampled."""
        return 0 if step <= self._last_step else self._next_step - step


@cache
def _open_statistics(pid: int, thread: int) -> int:
    """Open the scheduler's statistics of a thread; -1 where there are none.

    The descriptor is never closed: by then its number may belong to a file of the training.
    """
    try:
        return os.open(f"/proc/{pid}/task/{thread}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return _CLOSED
