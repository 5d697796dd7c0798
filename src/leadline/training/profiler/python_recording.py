"""Recording what Python functions do in a window: a profile of its own for each phase of each step."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from leadline.records.profile_window import ProfileWindow
from leadline.training.recording import Finish, ProfileUnavailableError

FIRST_PHASE = "forward"
"""What a step begins with: the loop's own code, the batch, the forward pass."""


class Profiler(Protocol):
    """Something that can be switched on and off in this thread."""

    def start(self) -> None:
        """Begin to record."""

    def stop(self) -> None:
        """Stop, and keep what was recorded."""


@dataclass(frozen=True, slots=True)
class ProfileSlice:
    """What was recorded from one moment to the next."""

    step: int
    """The global step; -1: none, the process' start or end."""
    mode: str
    """The step's; of the process' start and end ``""``."""
    phase: str
    """``forward`` (with the loop's own code), ``backward``, ``optimizer``; ``start``, ``end``."""
    start_ns: int
    end_ns: int
    profiler: Any


class PythonRecording:
    """See ``leadline.training.recording.Recording``.

    Args:
        make: Makes a profiler; called once for each slice.
        write: Writes the slices into a folder, and gives the files' names.
    """

    def __init__(
        self,
        window: ProfileWindow,
        make: Callable[[], Profiler],
        write: Callable[[str, Sequence[ProfileSlice]], Sequence[str]],
        *,
        wall_clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.notes: list[str] = []
        self._window, self._make, self._write = window, make, write
        self._wall_clock = wall_clock
        self._slices: list[ProfileSlice] = []
        self._running: tuple[int, str, int, Profiler] | None = None

    def begin(self, step: int) -> None:
        refuse_second_profiler()
        self._open(*((step, FIRST_PHASE) if self._window.part == "loop" else (-1, self._window.part)))

    def enter(self, step: int, ended: str) -> None:
        self._close()
        self._settle(ended)
        self._open(step, FIRST_PHASE)

    def mark(self, phase: str) -> None:
        if self._running is None or self._window.part != "loop":
            return
        step, current, _, _ = self._running
        if phase == current or any(each.step == step and each.phase == phase for each in self._slices):
            return  # micro-batches: the first backward pass of a step begins the phase
        self._close()
        self._open(step, phase)

    def end(self, step: int, ended: str) -> Finish:
        self._close()
        self._settle(ended)
        slices, self._slices = self._slices, []
        return lambda folder: self._write(folder, slices)

    def _open(self, step: int, phase: str) -> None:
        profiler = self._make()
        self._running = (step, phase, self._wall_clock(), profiler)
        profiler.start()

    def _close(self) -> None:
        if self._running is None:
            return
        step, phase, start_ns, profiler = self._running
        self._running = None
        try:
            profiler.stop()
        except RuntimeError as error:  # the script switched it off, or took it over
            self.notes.append(f"{phase} of step {step}: {error}")
            return
        self._slices.append(ProfileSlice(step, "", phase, start_ns, self._wall_clock(), profiler))

    def _settle(self, mode: str) -> None:
        """The step has ended, and its mode is known."""
        self._slices = [replace(each, mode=mode) if each.step >= 0 and not each.mode else each for each in self._slices]


def refuse_second_profiler() -> None:
    """Two profilers of Python functions in one thread would take each other's place.

    Raises:
        ProfileUnavailableError: One is there.
    """
    monitoring = getattr(sys, "monitoring", None)
    has_tool = monitoring is not None and monitoring.get_tool(monitoring.PROFILER_ID) is not None
    if sys.getprofile() is not None or has_tool:
        raise ProfileUnavailableError("another profiler of Python functions runs in this thread")
