"""The times of a profile window's steps, which tell the step and phase of what a profiler recorded."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

from leadline.records.profile_window import TraceStep
from leadline.store import layout
from leadline.store.documents import write_document


class TraceStepTimes:
    """The steps of one window, by the wall clock."""

    def __init__(self) -> None:
        self.steps: list[TraceStep] = []

    def begin(self, step: int) -> int:
        """Begin a step, and return when."""
        now_ns = time.time_ns()
        self.steps.append({"step": step, "mode": "", "start_ns": now_ns, "end_ns": 0, "marks": {}})
        return now_ns

    def mark(self, phase: str) -> int:
        """Note that a phase of the step begins, unless it has before, and return the time."""
        now_ns = time.time_ns()
        self.steps[-1]["marks"].setdefault(phase, now_ns)
        return now_ns

    def end(self, mode: str) -> None:
        """End the step, whose mode is known now."""
        self.steps[-1]["mode"] = mode
        self.steps[-1]["end_ns"] = time.time_ns()

    def enter(self, step: int, ended: str) -> None:
        """Begin the next step, which ends the one before.

        Args:
            ended: The mode of the step before.
        """
        self.end(ended)
        self.begin(step)

    def write(self, folder: str, names: Mapping[str, Sequence[str]] | None = None) -> None:
        """Write the document of the steps.

        Args:
            names: Further members.
        Raises:
            OSError: It could not be written.
        """
        write_document(os.path.join(folder, layout.TRACE_STEPS), {"steps": self.steps, **(names or {})})
