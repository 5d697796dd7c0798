"""Step times by the clock of an accelerator: marks in its stream, read once it has passed them."""

from __future__ import annotations

from collections import deque
from typing import Any, Final, Protocol

from leadline.instrumentation.timeline.phase_sink import PhaseSink
from leadline.records.phases import BACKWARD, FORWARD, HEAD, HOST, ON_DEVICE, PHASE_FIELDS, ROW, STEP_PHASES

_DURATION: Final = HEAD.index("duration_ns")
_NESTING: Final = HEAD.index("nesting")
_MAX_PAIRS: Final = 1024
"""Phases of one step that are timed on its device: of more micro-batches the marks take too much memory."""


class DeviceClock(Protocol):
    """The interface to an accelerator's driver; tests use a fake.

    **Never waits** - except in ``wait``.
    """

    def mark(self) -> Any:
        """Enqueue a mark; None if none can be made now."""

    def is_past(self, mark: Any) -> bool:
        """Return whether the device has passed a mark."""

    def wait(self, mark: Any) -> None:
        """Wait until the device has passed a mark."""

    def between_ns(self, first: Any, second: Any) -> int:
        """Return the device's time between two marks that it has passed."""


class Marks:
    """The marks of one step."""

    __slots__ = ("_device", "_edge", "_first", "_open", "_pairs", "is_broken", "last")

    def __init__(self, device: DeviceClock, first: Any) -> None:
        """
        Args:
            first: The mark at the end of the previous step.
        """
        self._device = device
        self._first = first
        self._edge = first
        self.last = first
        self._open: dict[str, Any] = {}
        self._pairs: list[tuple[str, Any, Any]] = []
        self.is_broken = first is None
        """Whether a mark could not be made, or the step has too many: the host's times are used."""

    def begin(self, phase: str) -> None:
        self._open[phase] = self._mark()

    def end(self, phase: str) -> None:
        begun, self._edge = self._open.pop(phase, None), self._mark()
        if begun is not None:
            self._add(phase, begun, self._edge)

    def end_host(self) -> None:
        """End the host's work before the forward pass."""
        begun, self._edge = self._edge, self._mark()
        self._add(HOST, begun, self._edge)

    def end_forward(self) -> None:
        """End the forward pass, and begin the backward pass."""
        now = self._open[BACKWARD] = self._mark()
        self._add(FORWARD, self._edge, now)

    def cut(self) -> None:
        """Exclude the time until now from the forward pass."""
        self._edge = self._mark()

    def close(self) -> None:
        """End the step."""
        self.last = self._mark()

    def is_done(self) -> bool:
        """Return whether the device has passed the end of the step."""
        return self.is_broken or self._device.is_past(self.last)

    def wait(self) -> None:
        """Wait until the device has passed the end of the step."""
        if not self.is_broken:
            self._device.wait(self.last)

    def fill(self, values: list[int]) -> None:
        """Replace the host's durations with those of the device, in the values of a ``records.phases.ROW``."""
        if self.is_broken:
            return
        values[_DURATION] = self._device.between_ns(self._first, self.last)
        values[_NESTING] |= ON_DEVICE
        for index, phase in enumerate(STEP_PHASES):
            durations = [self._device.between_ns(*pair) for name, *pair in self._pairs if name == phase]
            if durations:
                values[len(HEAD) + len(PHASE_FIELDS) * index + 1] = sum(durations)

    def _add(self, phase: str, begun: Any, ended: Any) -> None:
        self._pairs.append((phase, begun, ended))
        if len(self._pairs) > _MAX_PAIRS or self.is_broken:
            self.is_broken = True
            self._pairs.clear()

    def _mark(self) -> Any:
        mark = self._device.mark()
        self.is_broken = self.is_broken or mark is None
        return mark


class PendingSteps:
    """Steps whose end their device has not passed yet."""

    def __init__(self) -> None:
        self.queue: deque[tuple[list[int], Marks]] = deque()

    def add(self, values: list[int], marks: Marks) -> None:
        """Add a step.

        Args:
            values: The values of its ``records.phases.ROW``, by the host's clock.
        """
        self.queue.append((values, marks))

    def write_done(self, sink: PhaseSink) -> None:
        """Write the steps whose end the device has passed."""
        while self.queue and self.queue[0][1].is_done():
            self._write_first(sink)

    def write_all(self, sink: PhaseSink) -> None:
        """Wait for all steps, and write them."""
        while self.queue:
            self.queue[0][1].wait()
            self._write_first(sink)

    def _write_first(self, sink: PhaseSink) -> None:
        values, marks = self.queue.popleft()
        marks.fill(values)
        sink.put_phases(ROW.pack(*values))
