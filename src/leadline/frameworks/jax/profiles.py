"""Recording of every operator of a profile window with the profiler of JAX."""

from __future__ import annotations

import jax
from jax._src import profiler

from leadline.frameworks.patches import Patches
from leadline.frameworks.xla_profiler import ProfilerRecording


class JaxRecording(ProfilerRecording):
    """See ``ProfilerRecording``."""

    busy = "the script is profiling itself with jax.profiler"

    def start(self, folder: str) -> bool:
        options = jax.profiler.ProfileOptions()
        options.host_tracer_level, options.python_tracer_level = 2, 0
        try:
            jax.profiler.start_trace(folder, profiler_options=options)
        except RuntimeError:
            return False
        return True

    def stop(self) -> None:
        jax.profiler.stop_trace()

    def watch_script(self, patches: Patches) -> None:
        patches.replace(profiler, "start_trace", self.make_start)
        patches.replace(jax.profiler, "start_trace", self.make_start)
