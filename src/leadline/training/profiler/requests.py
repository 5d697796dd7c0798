"""Requests for profile windows in a training process, their outcomes, and openers of recordings by frameworks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

from leadline.frameworks.capabilities import RecordsDataLoading
from leadline.frameworks.loaded_adapters import LoadedAdapters
from leadline.instrumentation.guard import Guard
from leadline.instrumentation.recording import Opener, ProfileUnavailableError, Recording
from leadline.instrumentation.step_context import StepContext
from leadline.records.formatting import counted
from leadline.records.profile_window import Kind, ProfileWindow
from leadline.records.request import Answer, Profile
from leadline.store import layout
from leadline.store.control import acknowledge
from leadline.training.profiler.profile_windows import ProfileWindows
from leadline.training.profiler.python_recording import open_callstacks, open_functions

PYTHON: Final[dict[Kind, Opener]] = {"cprofile": open_functions, "pyinstrument": open_callstacks}


class ProfileRequests:
    """See ``leadline.instrumentation.timeline.step_clock.StepListener``.

    **A guard of its own** - a profile that fails is noted, and disables profiling; capture continues.

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

    def begin(self, windows: Iterable[ProfileWindow]) -> None:
        """Begin with the windows of the capture plan."""
        for window in windows:
            refusal = self._windows.add(window, 0)
            if refusal:
                self._set_outcome(window.id, f"refused: {refusal}")
        self._guard.run(self._windows.begin_start)

    def begin_operators(self) -> None:
        """Open the windows of the process' start that record operators: a framework that does so was imported."""
        self._guard.run(self._windows.begin_start, has_framework=True)

    def begin_training(self) -> None:
        self._guard.run(self._begin_first_step)

    def exhaust_loader(self) -> None:
        self._guard.run(self._windows.begin_end, self._context.step)

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
        if acknowledge(context.run, request.id, context.worker, context.train_step - 1, answer):
            context.note("a profile request could not be acknowledged: the disk is full or not writable")

    def _set_outcome(self, window: str, outcome: str) -> None:
        self.outcomes[window] = outcome
        if not outcome.startswith("recorded"):
            self._context.note(f"profile {window}: {outcome}")

    def _disable(self, failure: str) -> None:
        self._context.note(f"profiling disabled: {failure}")
        self._windows.is_idle = True


def framework_openers(frameworks: LoadedAdapters, run: str, guard: Guard) -> dict[Kind, Opener]:
    """Return the openers of operator and data loader recordings, by kind of window."""

    def open_operators(window: ProfileWindow) -> Recording:
        profiles = frameworks.profiles
        if profiles is None:
            label = frameworks.label() or "no framework"
            raise ProfileUnavailableError(
                f"operators are recorded for PyTorch, TensorFlow and MXNet only; this process has {label}"
            )
        return profiles.open_operators(window, guard)

    data_loading = _DataLoadingOpener(os.path.join(run, layout.PROFILES), guard)
    frameworks.connect_data_loading(data_loading.connect)
    return {"detailed": open_operators, "dataloader": data_loading.open}


class _DataLoadingOpener:
    """Opens recordings of data loaders; their workers look for windows as soon as the framework is imported."""

    def __init__(self, folder: str, guard: Guard) -> None:
        self._folder, self._guard = folder, guard
        self._open: Opener | None = None

    def connect(self, adapter: RecordsDataLoading) -> None:
        self._open = adapter.watch_data_loading(self._folder, self._guard)

    def open(self, window: ProfileWindow) -> Recording:
        if self._open is None:
            raise ProfileUnavailableError("data loaders are recorded for PyTorch only, and PyTorch is not imported")
        return self._open(window)
