"""Recording of every operator of a profile window with TensorFlow's profiler."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import tensorflow as tf
from tensorflow.python.profiler.internal import _pywrap_profiler

from leadline.frameworks.patches import Patches
from leadline.frameworks.tensorflow.diagnose import layer_paths
from leadline.records.profile_window import ProfileWindow
from leadline.store import layout
from leadline.store.documents import write_document
from leadline.training.guard import Guard
from leadline.training.recording import Finish, ProfileUnavailableError

_OPTIONS: Final = {"host_tracer_level": 2, "python_tracer_level": 0, "device_tracer_level": 1}
_BUSY: Final = "the script is profiling itself with the profiler of TensorFlow"


class SpaceRecording:
    """See ``leadline.training.recording.Recording``.

    A process has one session of the profiler: if the script begins its own during the window, the recording ends there.

    Args:
        optimizers: Returns the names of the optimizers.
    """

    def __init__(self, window: ProfileWindow, guard: Guard, optimizers: Callable[[], Sequence[str]]) -> None:
        self.notes: list[str] = []
        self._guard, self._optimizers = guard, optimizers
        self._session: Any = None
        self._folder = ""
        """Where the profiler writes."""
        self._patches = Patches()
        self._steps: list[dict[str, Any]] = []

    def begin(self, step: int) -> None:
        session = _pywrap_profiler.ProfilerSession()
        self._folder = tempfile.mkdtemp(prefix="leadline-profile-")
        try:
            session.start(self._folder, _OPTIONS)
        except tf.errors.AlreadyExistsError:
            shutil.rmtree(self._folder)
            raise ProfileUnavailableError(_BUSY) from None
        self._session = session
        self._patches.replace(_pywrap_profiler.ProfilerSession, "start", self._make_start)
        self._begin_step(step)

    def enter(self, step: int, ended: str) -> None:
        self._end_step(ended)
        self._begin_step(step)

    def mark(self, phase: str) -> None:
        self._steps[-1]["marks"].setdefault(phase, time.time_ns())

    def end(self, step: int, ended: str) -> Finish:
        self._end_step(ended)
        self._stop()
        written, steps, optimizers = self._folder, self._steps, self._optimizers()
        return lambda folder: _write(written, steps, optimizers, folder)

    def _make_start(self, original: Callable[..., None]) -> Callable[..., None]:
        """Return what starts a session of the script: it ends ours first."""

        def start(session: Any, folder: str, options: Any) -> None:
            self._guard.run(self._yield_to_script)
            original(session, folder, options)

        return start

    def _yield_to_script(self) -> None:
        if self._session is not None:
            self._stop()
            self.notes.append(f"recorded in part: {_BUSY}")

    def _stop(self) -> None:
        session, self._session = self._session, None
        self._patches.restore()
        if session is not None:
            session.export_to_tb()

    def _begin_step(self, step: int) -> None:
        self._steps.append({"step": step, "mode": "", "start_ns": time.time_ns(), "end_ns": 0, "marks": {}})

    def _end_step(self, mode: str) -> None:
        self._steps[-1] |= {"mode": mode, "end_ns": time.time_ns()}


def _write(written: str, steps: list[dict[str, Any]], optimizers: Sequence[str], folder: str) -> Sequence[str]:
    """Move the XSpace to a folder, and write the times of the steps and the names that attribute operators next to it.

    Raises:
        OSError: One of the files could not be written.
    """
    try:
        (path,) = glob.glob(os.path.join(glob.escape(written), "plugins", "profile", "*", "*.xplane.pb"))
        os.chmod(shutil.move(path, os.path.join(folder, layout.SPACE)), 0o600)
    finally:
        shutil.rmtree(written)
    names = {"layers": layer_paths(), "optimizers": list(optimizers)}
    write_document(os.path.join(folder, layout.TRACE_STEPS), {"steps": steps, **names})
    return (layout.SPACE, layout.TRACE_STEPS)
