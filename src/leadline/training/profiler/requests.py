"""Requests for profile windows in a training process, and their outcomes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Final

from leadline.records.formatting import counted
from leadline.records.profile_window import Kind, ProfileWindow
from leadline.records.request import REFUSED, Acknowledgement, Request
from leadline.store.control import write_acknowledgement
from leadline.training.guard import Guard
from leadline.training.profiler.callstacks import open_callstacks
from leadline.training.profiler.functions import open_functions
from leadline.training.profiler.profile_windows import ProfileWindows
from leadline.training.recording import Opener
from leadline.training.step_context import StepContext
from leadline.training.timeline.step_timeline import StepTimeline

KIND: Final = "profile"
"""The kind of requests for profile windows."""
PYTHON: Final[dict[Kind, Opener]] = {"cprofile": open_functions, "pyinstrument": open_callstacks}


class ProfileRequests:
    """See ``leadline.training.timeline.listener.StepListener``.

    **A guard of its own** - a profile that fails is noted, and disables profiling; capture goes on.

    Args:
        started_ns: When the run was started, by the wall clock.
        openers: The openers of recordings that a framework makes, by kind.

    Attributes:
        outcomes: The outcome of each window, one line each.
    """

    def __init__(self, context: StepContext, *, started_ns: int, openers: Mapping[Kind, Opener]) -> None:
        self.outcomes: dict[str, str] = {}
        self._context = context
        self._guard = Guard(self._disable)
        self._windows = ProfileWindows(context, {**PYTHON, **openers}, started_ns=started_ns, report=self._set_outcome)

    @property
    def is_idle(self) -> bool:
        return self._windows.is_idle

    def begin(self, windows: Iterable[ProfileWindow], timeline: StepTimeline) -> None:
        """Begin with the windows of the capture plan."""
        for window in windows:
            refusal = self._windows.add(window, 0)
            if refusal:
                self._set_outcome(window.id, f"{REFUSED}{refusal}")
        timeline.on_begin = lambda: self._guard.run(self._begin_first_step)
        timeline.on_exhausted = lambda: self._guard.run(self._windows.begin_end, self._context.step)
        self._guard.run(self._windows.begin_start)

    def begin_step(self, step: int, ended: str = "train") -> None:
        self._guard.run(self._windows.begin_step, step, ended)

    def mark(self, phase: str) -> None:
        self._guard.run(self._windows.mark, phase)

    def handle(self, request: Request) -> None:
        """Add the windows of a request, and acknowledge it."""
        self._guard.run(self._handle, request)

    def close(self) -> None:
        """End the training; a process without steps leaves no trace."""
        if self._context.writer is not None:
            self._guard.run(self._windows.close, self._context.step)
        else:
            self.abandon()

    def abandon(self) -> None:
        """Stop at once: capture was disabled, or this is a child of the process."""
        self._guard.run(self._windows.abandon)

    def _begin_first_step(self) -> None:
        self._windows.end_start()
        self._windows.begin_step(0, "")

    def _handle(self, request: Request) -> None:
        context = self._context
        step, outcomes = context.step, []
        if request.parameters.get("off"):
            outcomes.append(f"taken: {counted(self._windows.cancel(step), 'window')} ended")
        for data in request.parameters.get("windows", ()):
            window = ProfileWindow.from_dict(data)
            refusal = self._windows.add(window, step)
            outcomes.append(f"{REFUSED}{refusal}" if refusal else f"taken: {window.describe()}")
            if refusal:
                self._set_outcome(window.id, outcomes[-1])
        outcome = "; ".join(outcomes) or "taken"
        acknowledgement = Acknowledgement(request.id, context.worker, step - 1, time.time_ns(), outcome)
        try:
            write_acknowledgement(context.run, acknowledgement)
        except OSError:
            context.note("a profile request could not be acknowledged: the disk is full or not writable")

    def _set_outcome(self, window: str, outcome: str) -> None:
        self.outcomes[window] = outcome
        if not outcome.startswith("recorded"):
            self._context.note(f"profile {window}: {outcome}")

    def _disable(self, failure: str) -> None:
        self._context.note(f"profiling disabled: {failure}")
        self._windows.is_idle = True
