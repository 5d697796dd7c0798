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
_INTERVAL: Final = 17
"""A prime, so that it meets no period of the training."""


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


def is_sampled(step: int) -> bool:
    """Return whether the thread's times are taken in a step: in the first ones, then in one of 17.

    Reading them in each phase of a step takes some 20 µs.
    """
    return step < _FIRST_STEPS or not step % _INTERVAL


def steps_until_sample(step: int) -> int:
    """Return how many steps from ``step`` on come before the next one in which the thread's times are taken."""
    return 0 if step < _FIRST_STEPS else -step % _INTERVAL


@cache
def _open_statistics(pid: int, thread: int) -> int:
    """Open the scheduler's statistics of a thread; -1 where there are none.

    The descriptor is never closed: by then its number may belong to a file of the training.
    """
    try:
        return os.open(f"/proc/{pid}/task/{thread}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return _CLOSED
