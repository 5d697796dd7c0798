"""The clock of a device that computes beside the host: marks in its stream, read when it has come past them."""

from __future__ import annotations

from typing import Any, Final, Protocol

from leadline.records.phases import BACKWARD, EACH_STEP, FORWARD, HEAD, ON_DEVICE

_DURATION: Final = HEAD.index("duration_ns")
_NESTING: Final = HEAD.index("nesting")


class DeviceClock(Protocol):
    """What is asked of an accelerator's driver; tests put a fake in its place.

    **Never waits** - but ``wait`` does.
    """

    def mark(self) -> Any:
        """A mark behind what the device has been asked for so far; None: none can be made now."""

    def is_past(self, mark: Any) -> bool:
        """Whether the device has come to a mark."""

    def wait(self, mark: Any) -> None:
        """Return when it has."""

    def between_ns(self, first: Any, second: Any) -> int:
        """The device's time between two marks that it is past."""


class Marks:
    """The marks of one step."""

    __slots__ = ("_device", "_edge", "_first", "_open", "_pairs", "is_broken", "last")

    def __init__(self, device: DeviceClock, first: Any) -> None:
        """
        Args:
            first: Where the step before ended.
        """
        self._device, self._first, self._edge, self.last = device, first, first, first
        self._open: dict[str, Any] = {}
        self._pairs: list[tuple[str, Any, Any]] = []
        self.is_broken = first is None
        """Whether a mark could not be made: the host's times stand."""

    def begin(self, phase: str) -> None:
        self._open[phase] = self._mark()

    def end(self, phase: str) -> None:
        begun, self._edge = self._open.pop(phase, None), self._mark()
        if begun is not None:
            self._pairs.append((phase, begun, self._edge))

    def end_forward(self) -> None:
        """The forward pass ends where the backward pass begins."""
        now = self._open[BACKWARD] = self._mark()
        self._pairs.append((FORWARD, self._edge, now))

    def cut(self) -> None:
        """What was going on is no part of a forward pass."""
        self._edge = self._mark()

    def close(self) -> None:
        """The step has ended."""
        self.last = self._mark()

    def is_done(self) -> bool:
        """Whether the device has come to the step's end."""
        return self.is_broken or self._device.is_past(self.last)

    def wait(self) -> None:
        """Return when it has."""
        if not self.is_broken:
            self._device.wait(self.last)

    def fill(self, values: list[int]) -> None:
        """Put the device's durations in the place of the host's, in the values of a ``records.phases.ROW``."""
        if self.is_broken:
            return
        values[_DURATION] = self._device.between_ns(self._first, self.last)
        values[_NESTING] |= ON_DEVICE
        for index, phase in enumerate(EACH_STEP):
            found = [self._device.between_ns(*pair) for name, *pair in self._pairs if name == phase]
            if found:
                values[len(HEAD) + 3 * index + 1] = sum(found)

    def _mark(self) -> Any:
        mark = self._device.mark()
        self.is_broken = self.is_broken or mark is None
        return mark
