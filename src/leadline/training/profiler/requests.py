"""Profiling in a training process: what the plan and requests ask for, and what is told of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from leadline.records.formatting import counted
from leadline.records.profile_window import Kind, ProfileWindow
from leadline.records.request import REFUSED, Acknowledgement, Request
from leadline.store import layout
from leadline.store.control import write_acknowledgement
from leadline.training.guard import Guard
from leadline.training.profiler.callstacks import open_callstacks
from leadline.training.profiler.functions import open_functions
from leadline.training.profiler.profile_windows import ProfileWindows
from leadline.training.recording import Opener
from leadline.training.timeline.step_timeline import StepTimeline

KIND: Final = "profile"
"""The kind of requests that ask for windows."""
PYTHON: Final[dict[Kind, Opener]] = {"cprofile": open_functions, "pyinstrument": open_callstacks}


class ProfileRequests:
    """See ``leadline.training.timeline.listener.StepListener``.

    **A guard of its own** - a profile that fails is told, and ends profiling; capture goes on.

    Attributes:
        outcomes: By window what became of it, a line each.
    """

    def __init__(
        self,
        run: str,
        *,
        worker: Callable[[], str],
        step: Callable[[], int],
        started_ns: int,
        openers: dict[Kind, Opener],
        note: Callable[[str], None],
        has_trained: Callable[[], bool],
    ) -> None:
        """
        Args:
            worker: Gives the worker's id.
            step: Gives the step under way.
            started_ns: When the run was started, by the wall clock.
            openers: What records the kinds that are the framework's.
            note: Takes a line for people.
            has_trained: Tells whether there was a step; a process without leaves no trace.
        """
        self.outcomes: dict[str, str] = {}
        self._run, self._worker, self._step, self._note = run, worker, step, note
        self._has_trained = has_trained
        self._guard = Guard(self._fail)
        self._windows = ProfileWindows(run, worker, {**PYTHON, **openers}, started_ns=started_ns, tell=self._tell)

    @property
    def is_calm(self) -> bool:
        return self._windows.is_calm

    def begin(self, windows: Iterable[ProfileWindow], timeline: StepTimeline) -> None:
        """The process begins to be watched."""
        for window in windows:
            why = self._windows.add(window, 0)
            if why:
                self._tell(window.id, f"{REFUSED}{why}")
        timeline.on_begin = lambda: self._guard.run(self._begin_first)
        timeline.on_exhausted = lambda: self._guard.run(self._windows.begin_end, self._step())
        self._guard.run(self._windows.begin_start)

    def begin_step(self, step: int, ended: str = "train") -> None:
        self._guard.run(self._windows.begin_step, step, ended)

    def mark(self, phase: str) -> None:
        self._guard.run(self._windows.mark, phase)

    def take(self, request: Request) -> None:
        """Take up a request, and answer it."""
        self._guard.run(self._take, request)

    def close(self) -> None:
        """The training is over."""
        if self._has_trained():
            self._guard.run(self._windows.close, self._step())
        else:
            self.abandon()

    def abandon(self) -> None:
        """Capture goes off, or this is a child of the process: stop at once."""
        self._guard.run(self._windows.abandon)

    def _begin_first(self) -> None:
        self._windows.end_start()
        self._windows.begin_step(0, "")

    def _take(self, request: Request) -> None:
        step = self._step()
        said = []
        if request.parameters.get("off"):
            said.append(f"taken: {counted(self._windows.call_off(step), 'window')} ended")
        for data in request.parameters.get("windows", ()):
            window = ProfileWindow.from_dict(data)
            why = self._windows.add(window, step)
            said.append(f"{REFUSED}{why}" if why else f"taken: {window.spoken()}")
            if why:
                self._tell(window.id, said[-1])
        answer = Acknowledgement(request.id, self._worker(), step - 1, time.time_ns(), "; ".join(said) or "taken")
        try:
            write_acknowledgement(self._run, answer)
        except OSError:
            self._note("a request for a profile could not be answered: the disk takes nothing")

    def _tell(self, window: str, line: str) -> None:
        self.outcomes[window] = line
        if not line.startswith("recorded"):
            self._note(f"profile {window}: {line}")

    def _fail(self, failure: str) -> None:
        self._note(f"profiling went off: {failure}")
        self._windows.is_calm = True


def openers_of(adapter: Any, run: str, guard: Guard) -> dict[Kind, Opener]:
    """What a framework records itself."""
    return {
        "detailed": lambda window: adapter.open_operators(window, guard),
        "dataloader": adapter.watch_fetching(os.path.join(run, layout.PROFILES), guard),
    }
