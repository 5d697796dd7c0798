"""Recording of every operator of a profile window as an XSpace: the profiler of XLA, in TensorFlow or JAX."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from leadline.frameworks.patches import Patches
from leadline.frameworks.trace_step_times import TraceStepTimes
from leadline.instrumentation.guard import Guard
from leadline.instrumentation.recording import Finish, ProfileUnavailableError
from leadline.records.profile_window import ProfileWindow
from leadline.store import layout


class ProfilerRecording:
    """See ``leadline.instrumentation.recording.Recording``; each framework starts and stops its own profiler.

    A process has one session of the profiler: if the script begins its own during the window, the recording ends there.

    Args:
        names: Returns the names that attribute operators: ``layers`` and ``optimizers``.
    """

    busy: str
    """Says that the script is profiling itself."""

    def __init__(self, window: ProfileWindow, guard: Guard, names: Callable[[], dict[str, Sequence[str]]]) -> None:
        self.notes: list[str] = []
        self._guard, self._names = guard, names
        self._is_recording = False
        self._folder = ""
        """Where the profiler writes."""
        self._patches = Patches()
        self._steps = TraceStepTimes()

    # --- of each framework --------------------------------------------------------------------------------

    def start(self, folder: str) -> bool:
        """Start the profiler; return False if the script is using it."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop the profiler, which writes its trace."""
        raise NotImplementedError

    def watch_script(self, patches: Patches) -> None:
        """Replace what starts the profiler with ``make_start``."""
        raise NotImplementedError

    # --- Recording ----------------------------------------------------------------------------------------

    def begin(self, step: int) -> None:
        self._folder = tempfile.mkdtemp(prefix="leadline-profile-")
        if not self.start(self._folder):
            shutil.rmtree(self._folder)
            raise ProfileUnavailableError(self.busy)
        self._is_recording = True
        self.watch_script(self._patches)
        self._steps.begin(step)

    def enter(self, step: int, ended: str) -> None:
        self._steps.enter(step, ended)

    def mark(self, phase: str) -> None:
        self._steps.mark(phase)

    def end(self, step: int, ended: str) -> Finish:
        self._steps.end(ended)
        self._stop()
        written, steps, names = self._folder, self._steps, self._names()
        return lambda folder: _write(written, steps, names, folder)

    def make_start(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return what starts a session of the script: it ends ours first."""

        def start(*args: Any, **kwargs: Any) -> Any:
            self._guard.run(self._yield_to_script)
            return original(*args, **kwargs)

        return start

    def _yield_to_script(self) -> None:
        if self._is_recording:
            self._stop()
            self.notes.append(f"recorded in part: {self.busy}")

    def _stop(self) -> None:
        self._patches.restore()
        if self._is_recording:
            self._is_recording = False
            self.stop()


def _write(written: str, steps: TraceStepTimes, names: dict[str, Sequence[str]], folder: str) -> Sequence[str]:
    """Move the XSpace to a folder, and write the times of the steps and the names that attribute operators next to it.

    Raises:
        OSError: One of the files could not be written.
    """
    try:
        (path,) = glob.glob(os.path.join(glob.escape(written), "plugins", "profile", "*", "*.xplane.pb"))
        os.chmod(shutil.move(path, os.path.join(folder, layout.SPACE)), 0o600)
    finally:
        shutil.rmtree(written)
    steps.write(folder, names)
    return (layout.SPACE, layout.TRACE_STEPS)
