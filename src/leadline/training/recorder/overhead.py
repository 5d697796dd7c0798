"""Measurement of the overhead in total."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Overhead:
    """The time that Leadline takes in the training's thread."""

    own_ns: int = 0
    loop_ns: int = 0
    clock: Callable[[], int] = time.perf_counter_ns
    _first_ns: int = 0
    _begun_ns: int | None = None

    def begin(self) -> int:
        """Begin a span of overhead; return the time."""
        now = self.clock()
        self._first_ns = self._first_ns or now
        self._begun_ns = now
        return now

    def end(self, begun_ns: int) -> None:
        """End the span that began at ``begun_ns``."""
        now = self.clock()
        self.own_ns += now - begun_ns
        self.loop_ns = now - self._first_ns
        self._begun_ns = None

    def add(self, own_ns: int, begun_ns: int) -> None:
        """Add overhead within the training's own code.

        Args:
            begun_ns: When it began; 0 if there was none.
        """
        self.own_ns += own_ns
        if begun_ns:
            self._first_ns = min(self._first_ns or begun_ns, begun_ns)

    def until(self, now_ns: int) -> int:
        """Return ``own_ns`` including the current span."""
        return self.own_ns + (now_ns - self._begun_ns if self._begun_ns is not None else 0)
