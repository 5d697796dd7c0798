"""Requests for profile windows in a training process, and their outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from leadline.records.formatting import counted
from leadline.records.profile_window import Kind, ProfileWindow
from leadline.records.request import Answer, Profile
from leadline.store.control import acknowledge
from leadline.training.guard import Guard
from leadline.training.profiler.callstacks import open_callstacks
from leadline.training.profiler.functions import open_functions
from leadline.training.profiler.profile_windows import ProfileWindows
from leadline.training.recording import Opener
from leadline.training.step_context import StepContext
from leadline.training.timeline.step_timeline import StepTimeline

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
                self._set_outcome(window.id, f"refused: {refusal}")
        timeline.on_begin = lambda: self._guard.run(self._begin_first_step)
        timeline.on_exhausted = lambda: self._guard.run(self._windows.begin_end, self._context.step)
        self._guard.run(self._windows.begin_start)

    def begin_step(self, step: int, ended: str = "train") -> None:
        self._guard.run(self._windows.begin_step, step, ended)

    def mark(self, phase: str) -> None:
        self._guard.run(self._windows.mark, phase)

    def handle(self, request: Profile) -> None:
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

    def _handle(self, request: Profile) -> None:
        context = self._context
        step, accepted, refused = context.step, [], []
        if request.off:
            accepted.append(f"{counted(self._windows.cancel(step), 'window')} ended")
        for window in request.windows:
            refusal = self._windows.add(window, step)
            if refusal:
                refused.append(refusal)
                self._set_outcome(window.id, f"refused: {refusal}")
            else:
                accepted.append(window.describe())
        if refused and not accepted:
            answer = Answer("refused", "; ".join(refused))
        else:
            answer = Answer("taken", "; ".join([*accepted, *(f"refused: {refusal}" for refusal in refused)]))
        if acknowledge(context.run, request.id, context.worker, step - 1, answer):
            context.note("a profile request could not be acknowledged: the disk is full or not writable")

    def _set_outcome(self, window: str, outcome: str) -> None:
        self.outcomes[window] = outcome
        if not outcome.startswith("recorded"):
            self._context.note(f"profile {window}: {outcome}")

    def _disable(self, failure: str) -> None:
        self._context.note(f"profiling disabled: {failure}")
        self._windows.is_idle = True
