"""pyinstrument: the whole call tree, sampled every millisecond."""

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
    """What ``probes.recording.Opener`` is for pyinstrument.

    Raises:
        ProfileUnavailableError: It is not installed where the training runs.
    """
    try:
        import pyinstrument
    except ImportError:
        raise ProfileUnavailableError(
            "pyinstrument is not installed where the training runs: pip install 'leadline[python-profiles]'"
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
    """Write a file for each slice: when it was, and pyinstrument's own session within.

    Raises:
        OSError: One could not be written.
    """
    names = []
    for index, each in enumerate(slices):
        name = layout.callstacks(index)
        document = {
            "step": each.step,
            "mode": each.mode,
            "phase": each.phase,
            "start_ns": each.start_ns,
            "end_ns": each.end_ns,
            "session": each.profiler.session.to_json(),
        }
        write_document(os.path.join(folder, name), document)
        names.append(name)
    return names
