"""Events that a script adds to the timeline, in smdebug's interface."""

from __future__ import annotations

from collections.abc import Mapping
from threading import get_ident
from typing import Any, Final

from leadline.compat.smdebug.exceptions import SMDebugTypeError, SMDebugValueError
from leadline.records.event import Event

PHASES: Final = ("X", "B", "E", "i")
"""An event with a duration, the begin and the end of one, an instant: as in Chrome's trace format."""


class TraceEvents:
    """Joins the begins and ends of events."""

    def __init__(self) -> None:
        self._begun: dict[tuple[str, str], list[tuple[int, Mapping[str, Any]]]] = {}

    def add(
        self,
        timestamp: float,
        training_phase: str,
        op_name: str,
        phase: str,
        duration: float,
        *,
        facts: Mapping[str, Any],
        step: int,
    ) -> Event | None:
        """Return the event that a call completes; None for the begin of one, and for an end without a begin.

        Args:
            timestamp, duration: Seconds, the first since the epoch.
            step: The current global step.
        Raises:
            SMDebugValueError: There is no such phase.
            SMDebugTypeError: A time is not a number.
        """
        if phase not in PHASES:
            raise SMDebugValueError(f"phase must be one of {', '.join(PHASES)}, not {phase!r}")
        start_ns, key = _nanoseconds(timestamp), (training_phase, op_name)
        duration_ns = _nanoseconds(duration) if phase == "X" else 0
        if phase == "B":
            self._begun.setdefault(key, []).append((start_ns, facts))
            return None
        if phase == "E":
            if not self._begun.get(key):
                return None
            begun_ns, at_begin = self._begun[key].pop()
            start_ns, duration_ns, facts = begun_ns, max(0, start_ns - begun_ns), {**at_begin, **facts}
        shown = {name: value if isinstance(value, (int, float, str)) else str(value) for name, value in facts.items()}
        args = shown | {"event": op_name or training_phase}
        return Event(training_phase or op_name or "event", step, start_ns, duration_ns, thread=get_ident(), args=args)


def _nanoseconds(seconds: float) -> int:
    try:
        return round(float(seconds) * 1e9)
    except (TypeError, ValueError, OverflowError):
        raise SMDebugTypeError(f"timestamp and duration are numbers of seconds, not {seconds!r}") from None
