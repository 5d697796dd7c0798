"""How long a process has done nothing although it could, as opposed to one that waits for a processor."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final, NamedTuple

MAX_LOOK_SECONDS: Final = 1.0
"""The most that counts between two looks: whoever looked had no processor for the rest of the time either."""
LOOK_SECONDS: Final = 0.25
"""How often it is looked at what a process does that others wait for."""
STARVED_SECONDS: Final = 600.0
"""How long a process may wait for a processor or a disk before it is given up all the same."""
_IDLE_STATES: Final = frozenset({"S", "I"})
"""A process that runs, waits for a processor or a disk, or was stopped is in another state."""
_ACTIVE_SHARE: Final = 0.2
"""A process that took this share of the time was not idle, whatever it did when it was looked at."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class _Look(NamedTuple):
    """What ``/proc`` says of one process."""

    state: str
    processor_seconds: float


@dataclass(slots=True)
class StallClock:
    """Counts the time that a process had for its work, from one look to the next.

    **A starved process is not stuck** - while it waits for a processor, only the processor time that it gets counts.

    Attributes:
        idle_seconds: For how long it, and all of its children, slept.
        used_seconds: The same, and the processor time that it took itself.
    """

    pid: int
    proc: str = "/proc"
    idle_seconds: float = 0.0
    used_seconds: float = 0.0
    _at: float | None = None
    _own: float = 0.0
    _all: float = 0.0

    def reset(self) -> None:
        """Restart the count: the process has made progress."""
        self.idle_seconds = self.used_seconds = 0.0
        self._at = None

    def look(self, now: float) -> None:
        """Count the time since the last look.

        Args:
            now: The time, on a monotonic clock.
        """
        looks = [look for pid in _with_children(self.pid, self.proc) if (look := _look(pid, self.proc)) is not None]
        own, total = (looks[0].processor_seconds if looks else 0.0), sum(look.processor_seconds for look in looks)
        if self._at is not None:
            passed = min(now - self._at, MAX_LOOK_SECONDS)
            is_idle = all(look.state in _IDLE_STATES for look in looks) and total - self._all < passed * _ACTIVE_SHARE
            slept = bool(looks) and looks[0].state in _IDLE_STATES
            self.idle_seconds += passed if is_idle else 0.0
            self.used_seconds += max(passed if slept else 0.0, min(own - self._own, now - self._at))
        self._at, self._own, self._all = now, own, total


class StuckWatch:
    """Tells a process that does nothing from one that computes, or gets no processor.

    Args:
        patience_seconds: How long it may sleep, without progress.
    """

    def __init__(self, patience_seconds: float) -> None:
        self._patience_seconds = patience_seconds
        self._clock = StallClock(-1)  # no process
        self._progress_at, self._look_at = 0.0, 0.0

    def look(self, pid: int, now: float, *, has_progress: bool) -> bool:
        """Return whether the process is stuck.

        Args:
            pid: The process; another one than before has its own time.
            has_progress: Whether it has made progress since the last call.
        """
        if has_progress or self._clock.pid != pid:
            self._clock, self._progress_at = StallClock(pid), now
        if now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            self._clock.look(now)
        return self._clock.idle_seconds > self._patience_seconds or now - self._progress_at > STARVED_SECONDS


def _with_children(pid: int, proc: str) -> list[int]:
    """Return a process and the children that its main thread has started."""
    try:
        with open(f"{proc}/{pid}/task/{pid}/children", "rb") as file:
            return [pid, *map(int, file.read().split())]
    except OSError:  # it has ended, or the kernel does not tell
        return [pid]


def _look(pid: int, proc: str) -> _Look | None:
    """Return what a process does; None: it has ended."""
    try:
        with open(f"{proc}/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return _Look(fields[0].decode(), (int(fields[11]) + int(fields[12])) / _TICKS)
