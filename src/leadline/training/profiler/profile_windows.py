"""The windows of a worker: opened and closed between steps, one after the other."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from leadline.records.profile_window import MOST_SECONDS, MOST_STEPS, Kind, ProfileWindow
from leadline.store import layout
from leadline.training.profiler.background_writer import BackgroundWriter
from leadline.training.recording import Opener, ProfileUnavailableError, Recording

_SLOTS: Final[dict[Kind, str]] = {"detailed": "code", "cprofile": "code", "pyinstrument": "code", "dataloader": "data"}
"""Windows of one slot would measure each other: the later waits for the earlier."""


@dataclass(slots=True)
class _Open:
    """A window under way."""

    window: ProfileWindow
    recording: Recording
    first_step: int
    begun_ns: int
    """Wall clock."""
    begun_at_ns: int
    """The monotonic clock's."""
    notes: list[str] = field(default_factory=list)

    def is_over(self, step: int, now_ns: int) -> bool:
        """Whether the step that begins is no longer part of it."""
        count = step - self.first_step
        if self.window.seconds is not None:
            seconds = (now_ns - self.begun_at_ns) / 1e9
            return seconds >= min(self.window.seconds, MOST_SECONDS) or count >= MOST_STEPS
        return count >= min(self.window.steps or 1, MOST_STEPS)


class ProfileWindows:
    """Opens windows when their step comes, and closes them again.

    Args:
        run: The run folder.
        worker: Gives the worker's id.
        openers: By kind what makes a recording.
        started_ns: When the run was started, by the wall clock.
        tell: Takes what became of a window: its id, and a line.
    """

    def __init__(
        self,
        run: str,
        worker: Callable[[], str],
        openers: Mapping[Kind, Opener],
        *,
        started_ns: int,
        tell: Callable[[str, str], None],
        clock: Callable[[], int] = time.monotonic_ns,
        wall_clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._run, self._worker, self._openers = run, worker, openers
        self._started_ns, self._tell = started_ns, tell
        self._clock, self._wall_clock = clock, wall_clock
        self._waiting: list[ProfileWindow] = []
        self._ends: list[ProfileWindow] = []
        """Windows of the process' end, which may be tried several times: which step is the last shows afterwards."""
        self._open: dict[str, _Open] = {}
        self._writing = BackgroundWriter()
        self.is_calm = True
        """Whether nothing is waited for and nothing open: then no call is needed at a step's begin."""

    def add(self, window: ProfileWindow, next_step: int) -> str:
        """Take up a wish; ``""``, or why it is refused.

        Args:
            next_step: The step that begins next.
        """
        if window.kind not in self._openers:
            return f"{window.kind} cannot be recorded here"
        if window.step is not None and window.step < next_step and window.part == "loop":
            return f"step {window.step:,} has begun already: step {next_step:,} comes next"
        (self._ends if window.part == "end" else self._waiting).append(window)
        self.is_calm = not self._waiting and not self._open
        return ""

    def begin_step(self, step: int, ended: str = "train") -> None:
        """A step begins, or will once it is the first: close what is over, open what is due.

        Args:
            ended: The mode of the step before.
        """
        now_ns = self._clock()
        self._forget_end()
        for slot, each in list(self._open.items()):
            if each.is_over(step, now_ns):
                self._close(slot, step, ended)
            else:
                each.recording.enter(step, ended)
        for window in list(self._waiting):
            if window.part == "loop" and _SLOTS[window.kind] not in self._open and self._is_due(window, step):
                self._waiting.remove(window)
                self._begin(window, step)
        self.is_calm = not self._waiting and not self._open

    def begin_start(self) -> None:
        """The process has started: what precedes the first step is recorded from now on."""
        for window in [each for each in self._waiting if each.part == "start"]:
            self._waiting.remove(window)
            if _SLOTS[window.kind] not in self._open:
                self._begin(window, 0)
            else:
                self._tell(window.id, "refused: another window of the process' start is under way")

    def end_start(self) -> None:
        """The first step begins."""
        for slot, each in list(self._open.items()):
            if each.window.part == "start":
                self._close(slot, 0)
        self.is_calm = not self._waiting and not self._open

    def begin_end(self, step: int) -> None:
        """What comes now may be the end: it is recorded, and forgotten if a step follows."""
        self._forget_end()
        for window in self._ends:
            if _SLOTS[window.kind] not in self._open:
                self._begin(window, step)

    def _forget_end(self) -> None:
        for slot, each in list(self._open.items()):
            if each.window.part == "end":
                del self._open[slot]
                each.recording.end(each.first_step, "train")

    def mark(self, phase: str) -> None:
        """Within a step something begins."""
        self._forget_end()
        for each in self._open.values():
            each.recording.mark(phase)

    def close(self, step: int) -> None:
        """The training is over: close what is open, tell what never came, and wait for what is being written."""
        closed = {each.window.id for each in self._open.values()}
        for slot in list(self._open):
            self._close(slot, step)
        for window in [*self._waiting, *(each for each in self._ends if each.id not in closed)]:
            self._tell(window.id, "never came: the training had ended")
        self._waiting.clear()
        self._ends.clear()
        self._writing.close()

    def call_off(self, step: int) -> int:
        """Nothing more is recorded: what is open is closed and kept, what is waited for never comes; how many.

        Args:
            step: The step that begins next.
        """
        self._forget_end()
        called_off = [*self._waiting, *self._ends]
        count = len(self._open) + len(called_off)
        for slot in list(self._open):
            self._close(slot, step)
        for window in called_off:
            self._tell(window.id, "called off")
        self._waiting.clear()
        self._ends.clear()
        self.is_calm = True
        return count

    def abandon(self) -> None:
        """Stop everything at once, and write nothing: capture goes off."""
        for each in self._open.values():
            each.recording.end(each.first_step, "train")
        self._open.clear()
        self._waiting.clear()
        self.is_calm = True

    def _is_due(self, window: ProfileWindow, step: int) -> bool:
        if window.step is not None:
            return step >= window.step
        begin_ns = window.time_ns
        if window.after_seconds is not None:
            begin_ns = self._started_ns + int(window.after_seconds * 1e9)
        return begin_ns is None or self._wall_clock() >= begin_ns

    def _begin(self, window: ProfileWindow, step: int) -> None:
        try:
            recording = self._openers[window.kind](window)
            recording.begin(step)
        except ProfileUnavailableError as error:
            self._tell(window.id, f"refused: {error}")
            return
        late = window.step is not None and step > window.step
        notes = [f"began at step {step:,}: another window was under way"] if late else []
        now = self._clock()
        self._open[_SLOTS[window.kind]] = _Open(window, recording, step, self._wall_clock(), now, notes)
        self.is_calm = False

    def _close(self, slot: str, step: int, ended: str = "train") -> None:
        each = self._open.pop(slot)
        finish = each.recording.end(step, ended)
        folder = os.path.join(self._run, layout.profile(self._worker(), each.window.id))
        self._writing.put(folder, finish, self._document(each, step), lambda line: self._tell(each.window.id, line))

    def _document(self, each: _Open, step: int) -> dict[str, Any]:
        return {
            **each.window.to_dict(),
            "worker": self._worker(),
            "first_step": each.first_step,
            "end_step": step,
            "start_ns": each.begun_ns,
            "end_ns": self._wall_clock(),
            "notes": [*each.notes, *each.recording.notes],
        }
