"""Recording of every operator of a profile window with TensorFlow's profiler."""

from __future__ import annotations

from typing import Any, Final

import tensorflow as tf
from tensorflow.python.profiler.internal import _pywrap_profiler

from leadline.frameworks.patches import Patches
from leadline.frameworks.xla_profiler import ProfilerRecording

_OPTIONS: Final = {"host_tracer_level": 2, "python_tracer_level": 0, "device_tracer_level": 1}


class XlaRecording(ProfilerRecording):
    """See ``ProfilerRecording``."""

    busy = "the script is profiling itself with the profiler of TensorFlow"
    _session: Any = None

    def start(self, folder: str) -> bool:
        self._session = _pywrap_profiler.ProfilerSession()
        try:
            self._session.start(folder, _OPTIONS)
        except tf.errors.AlreadyExistsError:
            return False
        return True

    def stop(self) -> None:
        session, self._session = self._session, None
        session.export_to_tb()

    def watch_script(self, patches: Patches) -> None:
        patches.replace(_pywrap_profiler.ProfilerSession, "start", self.make_start)
