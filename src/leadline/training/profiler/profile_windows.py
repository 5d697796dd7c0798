"""Profile windows of a worker: opened and closed between steps, one after the other, and written in the background."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from leadline.instrumentation.recording import Finish, Opener, ProfileUnavailableError, Recording
from leadline.instrumentation.step_context import StepContext
from leadline.records.json_object import JsonObject
from leadline.records.names import START
from leadline.records.profile_window import MAX_SECONDS, MAX_STEPS, Kind, ProfileWindow
from leadline.store import layout
from leadline.store.documents import make_subfolder, write_document

_SLOTS: Final[dict[Kind, str]] = {"detailed": "code", "cprofile": "code", "pyinstrument": "code", "dataloader": "data"}
"""Windows of one slot would measure each other: the later one waits for the earlier."""


@dataclass(slots=True)
class _Open:
    """An open window."""

    window: ProfileWindow
    recording: Recording
    first_step: int
    """The global step, as is that of the recording."""
    first_train_step: int
    opened_ns: int
    """By the wall clock."""
    opened_monotonic_ns: int
    notes: list[str] = field(default_factory=list)

    def is_complete(self, step: int, now_ns: int) -> bool:
        """Return whether the step that begins is no longer part of the window."""
        count = step - self.first_step
        if self.window.seconds is not None:
            seconds = (now_ns - self.opened_monotonic_ns) / 1e9
            return seconds >= min(self.window.seconds, MAX_SECONDS) or count >= MAX_STEPS
        return count >= min(self.window.steps or 1, MAX_STEPS)


class ProfileWindows:
    """Opens windows at their step, and closes them again.

    Args:
        openers: Make the recordings, by kind of window.
        started_ns: When the run was started, by the wall clock.
        report: Takes the outcome of a window: its id, and a line.

    Attributes:
        is_idle: Whether no window is pending or open: no call is needed when a step begins.
    """

    def __init__(
        self,
        context: StepContext,
        openers: Mapping[Kind, Opener],
        *,
        started_ns: int,
        report: Callable[[str, str], None],
        clock: Callable[[], int] = time.monotonic_ns,
        wall_clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.is_idle = True
        self._context, self._openers = context, openers
        self._started_ns, self._report = started_ns, report
        self._clock, self._wall_clock = clock, wall_clock
        self._pending: list[ProfileWindow] = []
        self._end_windows: list[ProfileWindow] = []
        """Windows of the process' end; they may open several times, since the last step is known only afterwards."""
        self._open: dict[str, _Open] = {}
        self._detailed_end = -1
        """The step before which the last detailed window ended."""
        self._writer = BackgroundWriter()

    def add(self, window: ProfileWindow, next_step: int) -> str:
        """Add a window; return ``""``, or why it is refused.

        Args:
            next_step: The global step that begins next.
        """
        next_train_step = self._train_step(next_step)
        if window.kind not in self._openers:
            return f"{window.kind} cannot be recorded here"
        if window.step is not None and window.step < next_train_step and window.part == "loop":
            return f"step {window.step:,} has begun already: step {next_train_step:,} comes next"
        (self._end_windows if window.part == "end" else self._pending).append(window)
        self._update_idle()
        return ""

    def begin_step(self, step: int, ended: str = "train") -> None:
        """Begin a step: close complete windows, open scheduled ones.

        Args:
            step: Its global number.
            ended: The mode of the previous step.
        """
        now_ns = self._clock()
        self._discard_end()
        for slot, opened in list(self._open.items()):
            if opened.is_complete(step, now_ns):
                self._close(slot, step, ended)
            else:
                opened.recording.enter(step, ended)
        for window in list(self._pending):
            if window.part == "loop" and _SLOTS[window.kind] not in self._open and self._should_open(window, step):
                self._pending.remove(window)
                self._begin(window, step)
        self._update_idle()

    def begin_start(self, *, has_framework: bool = False) -> None:
        """Open the windows of the process' start, which ends with the first step.

        Args:
            has_framework: Whether a framework that records operators has been imported; until then, their windows wait.
        """
        for window in [window for window in self._pending if window.part == "start"]:
            if (window.kind == "detailed") != has_framework:
                continue
            self._pending.remove(window)
            if _SLOTS[window.kind] not in self._open:
                self._begin(window, 0)
            else:
                self._report(window.id, "refused: another window of the process' start is open")

    def end_start(self) -> None:
        """Close the windows of the process' start: the first step begins."""
        for slot, opened in list(self._open.items()):
            if opened.window.part == "start":
                self._close(slot, 0, START if opened.window.kind == "detailed" else "train")
        for window in [window for window in self._pending if window.part == "start"]:
            self._pending.remove(window)
            self._report(window.id, "not recorded: no framework that records operators was imported before the step")
        self._update_idle()

    def begin_end(self, step: int) -> None:
        """Open the windows of the process' end, which may begin now; they are discarded if a step follows."""
        self._discard_end()
        for window in self._end_windows:
            if _SLOTS[window.kind] not in self._open:
                self._begin(window, step)

    def mark(self, phase: str) -> None:
        """Begin a phase within the step."""
        self._discard_end()
        for opened in self._open.values():
            opened.recording.mark(phase)

    def close(self, step: int) -> None:
        """End the training: close open windows, report pending ones, and wait for the writer."""
        closed = {opened.window.id for opened in self._open.values()}
        for slot in list(self._open):
            self._close(slot, step)
        for window in [*self._pending, *(window for window in self._end_windows if window.id not in closed)]:
            self._report(window.id, "not recorded: the training ended first")
        self._pending.clear()
        self._end_windows.clear()
        self._writer.close()

    def cancel(self, step: int) -> int:
        """Close and keep the open windows, and cancel the pending ones; return the number of windows.

        Args:
            step: The step that begins next.
        """
        self._discard_end()
        cancelled = [*self._pending, *self._end_windows]
        count = len(self._open) + len(cancelled)
        for slot in list(self._open):
            self._close(slot, step)
        for window in cancelled:
            self._report(window.id, "cancelled")
        self._pending.clear()
        self._end_windows.clear()
        self.is_idle = True
        return count

    def abandon(self) -> None:
        """Stop everything at once, and write nothing: capture was disabled."""
        for opened in self._open.values():
            opened.recording.end(opened.first_step, "train")
        self._open.clear()
        self._pending.clear()
        self.is_idle = True

    def _update_idle(self) -> None:
        self.is_idle = not self._pending and not self._open

    def _discard_end(self) -> None:
        for slot, opened in list(self._open.items()):
            if opened.window.part == "end":
                del self._open[slot]
                opened.recording.end(opened.first_step, "train")

    def _should_open(self, window: ProfileWindow, step: int) -> bool:
        if window.kind == "detailed" and step == self._detailed_end:
            # a step may end within a region that torch.compile made; PyTorch writes the end of the region into freed
            # memory if it began in another session of the profiler, see leadline.frameworks.torch.timing.operators
            return False
        if window.step is not None:
            return self._train_step(step) >= window.step
        begin_ns = window.time_ns
        if window.after_seconds is not None:
            begin_ns = self._started_ns + int(window.after_seconds * 1e9)
        return begin_ns is None or self._wall_clock() >= begin_ns

    def _train_step(self, step: int) -> int:
        """Return the train step that a global step is, or that follows it."""
        return step - (self._context.step - self._context.train_step)

    def _begin(self, window: ProfileWindow, step: int) -> None:
        try:
            recording = self._openers[window.kind](window)
            recording.begin(step)
        except ProfileUnavailableError as error:
            self._report(window.id, f"refused: {error}")
            return
        train_step = self._train_step(step)
        is_late = window.step is not None and train_step > window.step
        notes = [f"began at step {train_step:,}: another window was open"] if is_late else []
        now = self._clock()
        self._open[_SLOTS[window.kind]] = _Open(window, recording, step, train_step, self._wall_clock(), now, notes)
        self.is_idle = False

    def _close(self, slot: str, step: int, ended: str = "train") -> None:
        opened = self._open.pop(slot)
        if opened.window.kind == "detailed":
            self._detailed_end = step
        finish = opened.recording.end(step, ended)
        window = opened.window.id
        folder = os.path.join(self._context.run, layout.profile(self._context.worker, window))
        self._writer.put(folder, finish, self._document(opened, step), lambda line: self._report(window, line))

    def _document(self, opened: _Open, step: int) -> JsonObject:
        return {
            **opened.window.to_dict(),
            "worker": self._context.worker,
            "first_step": opened.first_step,
            "end_step": step,
            "first_train_step": opened.first_train_step,
            "end_train_step": self._train_step(step),
            "start_ns": opened.opened_ns,
            "end_ns": self._wall_clock(),
            "notes": [*opened.notes, *opened.recording.notes],
        }


_CLOSE_SECONDS: Final = 60.0


class BackgroundWriter:
    """Writes one profile after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: list[Callable[[], None]] = []
        self._thread: threading.Thread | None = None

    def put(self, folder: str, finish: Finish, document: JsonObject, report: Callable[[str], None]) -> None:
        """Write a profile: its files, then the document that marks them complete.

        Args:
            report: Takes the outcome, one line.
        """
        with self._lock:
            self._queue.append(lambda: _write(folder, finish, document, report))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="leadline-profiles", daemon=True)
                self._thread.start()

    def close(self) -> bool:
        """Wait until everything is written; return whether it is."""
        thread = self._thread
        if thread is not None:
            thread.join(_CLOSE_SECONDS)
        return not self._queue and self._thread is None

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._thread = None
                    return
                write = self._queue.pop(0)
            write()


def _write(folder: str, finish: Finish, document: JsonObject, report: Callable[[str], None]) -> None:
    """Write a profile; a failure is reported, and affects nothing else."""
    try:
        for parent in (os.path.dirname(os.path.dirname(folder)), os.path.dirname(folder), folder):
            make_subfolder(parent)
        files = list(finish(folder))
        size = sum(os.path.getsize(os.path.join(folder, file)) for file in files)
        complete = {**document, "files": files, "bytes": size, "written_ns": time.time_ns()}
        write_document(os.path.join(folder, layout.WINDOW), complete)
    except Exception as error:  # noqa: BLE001 - the guard of a thread of ours
        from leadline.config.secrets import scrub

        report(f"failed: {type(error).__name__}: {scrub(str(error))}")
    else:
        first, end = document["first_train_step"], document["end_train_step"]
        steps = f"steps {first:,} to {max(first, end - 1):,}, "
        report(f"recorded: {steps if document['part'] == 'loop' else ''}{size:,} bytes")
