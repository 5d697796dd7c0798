"""Writes trace files as smdebug's profiler does: Leadline and smdebug read them as timelines of a process."""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any

from leadline.compat.smdebug.core.json_config import DEFAULT_RESOURCE_CONFIG_FILE
from leadline.compat.smdebug.core.logger import get_logger
from leadline.compat.smdebug.profiler.profiler_config_parser import ProfilerConfig, ProfilerConfigParser
from leadline.compat.smdebug.profiler.profiler_constants import CONVERT_TO_MICROSECS, PYTHONTIMELINE_SUFFIX
from leadline.trials.trace_files import TraceFiles


class TimelineFileWriter:
    """Writes events into files below ``framework/pevents``, which are closed and named after their last event.

    A file that cannot be written costs only its events: the first failure is logged.

    Args:
        profiler_config_parser: Whether anything is written, where, and when a file is closed.
        max_queue: Changes nothing: an event is written when it is passed.
        suffix: The end of the names of the files.
    """

    def __init__(
        self, profiler_config_parser: ProfilerConfigParser, max_queue: int = 100, suffix: str = PYTHONTIMELINE_SUFFIX
    ) -> None:
        self.start_time_since_epoch_in_micros = _now_us()
        self._parser, self._suffix = profiler_config_parser, suffix
        self._files: TraceFiles | None = None
        self._closed_us = self.start_time_since_epoch_in_micros
        self._failures = 0

    def write_trace_events(
        self,
        timestamp: float,
        training_phase: str = "",
        op_name: str = "",
        phase: str = "X",
        duration: float = 0,
        **kwargs: Any,
    ) -> None:
        """Write an event; nothing while the profiler is disabled.

        Args:
            timestamp: Its start in seconds since the epoch.
            training_phase, op_name: What it is listed under, and its name.
            phase: ``X``, ``B``, ``E`` or ``i`` of Chrome's trace format.
            duration: Seconds.
            kwargs: Further facts about it.
        """
        config = self._parser.config
        if config is None or self._failures >= config.trace_file.file_open_fail_threshold:
            return
        if self._files is None:
            start_us = self.start_time_since_epoch_in_micros
            self._files = TraceFiles(config.local_path, _process(), start_us, self._suffix)
        start_us, duration_us = int(timestamp * CONVERT_TO_MICROSECS), int(duration * CONVERT_TO_MICROSECS)
        if self._is_full(config, self._files, start_us + duration_us):
            self.close()
        try:
            self._files.put(training_phase, op_name, start_us, duration_us, kind=phase, facts=kwargs)
        except (OSError, TypeError, ValueError) as error:
            self._note(error)

    def flush(self) -> None:
        """Hand what was written to the kernel."""
        if self._files is not None:
            self._files.flush()

    def close(self) -> None:
        """Complete the current file; another event begins another one."""
        if self._files is not None:
            try:
                self._files.close()
            except OSError as error:
                self._note(error)
            self._closed_us = _now_us()

    def _is_full(self, config: ProfilerConfig, files: TraceFiles, end_us: int) -> bool:
        policy = config.trace_file.rotation_policy
        is_old = (end_us - self._closed_us) / CONVERT_TO_MICROSECS > policy.file_close_interval
        return files.is_open and (is_old or files.bytes > policy.file_max_size)

    def _note(self, error: Exception) -> None:
        if not self._failures:
            get_logger().warning("events are missing from the timeline: %s", error)
        self._failures += 1


def _now_us() -> int:
    return round(time.time() * CONVERT_TO_MICROSECS)


def _process() -> str:
    """Return process and host as in names of files; the host is that of SageMaker's container, if this is one."""
    try:
        with open(DEFAULT_RESOURCE_CONFIG_FILE, encoding="utf-8") as file:
            host = str(json.load(file)["current_host"])
    except (OSError, ValueError, KeyError, TypeError):
        host = socket.gethostname()
    return f"{os.getpid()}-{host.replace('_', '-')}"
