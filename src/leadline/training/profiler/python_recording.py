"""Recordings of Python functions: one profile per phase and step."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from leadline.records.profile_window import ProfileWindow
from leadline.training.recording import Finish, ProfileUnavailableError

FIRST_PHASE = "forward"
"""The first phase of a step: the loop's own code, the batch, the forward pass."""


class Profiler(Protocol):
    """A profiler of this thread."""

    def start(self) -> None:
        """Begin to record."""

    def stop(self) -> None:
        """Stop, and keep the profile."""


@dataclass(frozen=True, slots=True)
class ProfileSlice:
    """The profile of one phase."""

    step: int
    """The global step; -1 for the process' start or end."""
    mode: str
    """The mode of the step; ``""`` for the process' start or end."""
    phase: str
    """``forward`` (with the loop's own code), ``backward``, ``optimizer``; ``start``, ``end``."""
    start_ns: int
    end_ns: int
    profiler: Any


class PythonRecording:
    """See ``leadline.training.recording.Recording``.

    Args:
        make: Makes a profiler; called once per slice.
        write: Writes the slices into a folder; returns the names of the files.
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
        self._set_mode(ended)
        self._open(step, FIRST_PHASE)

    def mark(self, phase: str) -> None:
        if self._running is None or self._window.part != "loop":
            return
        step, current, _, _ = self._running
        if phase == current or any(part.step == step and part.phase == phase for part in self._slices):
            return  # micro-batches: the first backward pass of a step begins the phase
        self._close()
        self._open(step, phase)

    def end(self, step: int, ended: str) -> Finish:
        self._close()
        self._set_mode(ended)
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

    def _set_mode(self, mode: str) -> None:
        """Set the mode of the step that has ended."""
        self._slices = [replace(part, mode=mode) if part.step >= 0 and not part.mode else part for part in self._slices]


def refuse_second_profiler() -> None:
    """Refuse to record beside another profiler of this thread: they would replace each other.

    Raises:
        ProfileUnavailableError: Another profiler is active.
    """
    monitoring = getattr(sys, "monitoring", None)
    has_tool = monitoring is not None and monitoring.get_tool(monitoring.PROFILER_ID) is not None
    if sys.getprofile() is not None or has_tool:
        raise ProfileUnavailableError("another Python profiler is active in this thread")
