"""Python call trees of profile windows, sampled every millisecond by pyinstrument."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

from leadline.records.profile_window import ProfileWindow
from leadline.store import layout
from leadline.store.documents import write_document
from leadline.training.profiler.python_recording import ProfileSlice, PythonRecording
from leadline.training.recording import ProfileUnavailableError, Recording

INTERVAL_SECONDS: Final = 0.001


def open_callstacks(window: ProfileWindow) -> Recording:
    """Open a recording with pyinstrument; see ``leadline.training.recording.Opener``.

    Raises:
        ProfileUnavailableError: pyinstrument is not installed in the training's environment.
    """
    try:
        import pyinstrument
    except ImportError:
        raise ProfileUnavailableError(
            "pyinstrument is not installed in the training's environment: pip install 'leadline[python-profiles]'"
        ) from None
    return PythonRecording(window, lambda: StackProfiler(pyinstrument), write_callstacks)


class StackProfiler:
    """pyinstrument in the training's thread."""

    def __init__(self, library: Any) -> None:
        self._profiler = library.Profiler(interval=INTERVAL_SECONDS, async_mode="disabled")
        self.session: Any = None

    def start(self) -> None:
        self._profiler.start()

    def stop(self) -> None:
        self.session = self._profiler.stop()


def write_callstacks(folder: str, slices: Sequence[ProfileSlice]) -> Sequence[str]:
    """Write one file per slice: its time, and the session of pyinstrument.

    Raises:
        OSError: A file cannot be written.
    """
    names = []
    for index, part in enumerate(slices):
        name = layout.callstacks(index)
        document = {
            "step": part.step,
            "mode": part.mode,
            "phase": part.phase,
            "start_ns": part.start_ns,
            "end_ns": part.end_ns,
            "session": part.profiler.session.to_json(),
        }
        write_document(os.path.join(folder, name), document)
        names.append(name)
    return names
