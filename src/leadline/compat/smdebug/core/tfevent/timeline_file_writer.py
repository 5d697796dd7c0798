"""Writes trace files as smdebug's profiler does: Leadline and smdebug read them as timelines of a process."""

from __future__ import annotations

import json
import os
import socket
import time
from typing import IO, Any, Final

from leadline.compat.smdebug.core.json_config import DEFAULT_RESOURCE_CONFIG_FILE
from leadline.compat.smdebug.core.logger import get_logger
from leadline.compat.smdebug.profiler.profiler_config_parser import ProfilerConfig, ProfilerConfigParser
from leadline.compat.smdebug.profiler.profiler_constants import (
    CONVERT_TO_MICROSECS,
    DEFAULT_PREFIX,
    PYTHONTIMELINE_SUFFIX,
    TRACE_DIRECTORY_FORMAT,
)

_FRAMEWORK: Final = "framework"
_UNFINISHED: Final = ".tmp"


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
        self.start_time_since_epoch_in_micros = round(time.time() * CONVERT_TO_MICROSECS)
        self._parser, self._suffix = profiler_config_parser, suffix
        self._node = _node_id()
        self._file: IO[str] | None = None
        self._base = ""
        """The folder of the profiler's files when the current file was opened."""
        self._phases: dict[str, int] = {}
        """The process number that stands for each phase, in all files."""
        self._named: set[str] = set()
        """The phases whose names are in the current file."""
        self._last_end_us = 0
        """The end of the last event in the current file."""
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
        if config is None or not self._parser.profiling_enabled or not self._is_healthy(config):
            return
        start_us = int(timestamp * CONVERT_TO_MICROSECS)
        duration_us = int(duration * CONVERT_TO_MICROSECS)
        facts = dict(kwargs)
        entry: dict[str, Any] = {"name": op_name, "pid": self._phases.setdefault(training_phase, len(self._phases) + 1)}
        entry |= {"ph": phase, "ts": start_us - self.start_time_since_epoch_in_micros}
        entry |= {"dur": duration_us} if phase == "X" else {}
        entry |= {"s": facts.pop("s", "t")} if phase == "i" else {}
        entry |= {"args": facts} if facts else {}
        try:
            self._put(config, training_phase, entry, start_us + duration_us)
        except (OSError, TypeError, ValueError) as error:
            self._note(error)

    def flush(self) -> None:
        """Hand what was written to the kernel."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Complete the current file; another event begins another one."""
        file, self._file = self._file, None
        if file is None:
            return
        try:
            with file:
                file.write("\n]")
            hour = time.strftime(TRACE_DIRECTORY_FORMAT, time.gmtime(self._last_end_us / CONVERT_TO_MICROSECS))
            folder = os.path.join(self._base, DEFAULT_PREFIX, hour)
            os.makedirs(folder, exist_ok=True)
            os.rename(file.name, os.path.join(folder, f"{self._last_end_us}_{self._node}_{self._suffix}"))
        except OSError as error:
            self._note(error)
        self._closed_us = round(time.time() * CONVERT_TO_MICROSECS)

    def _put(self, config: ProfilerConfig, training_phase: str, entry: dict[str, Any], end_us: int) -> None:
        text = json.dumps(entry)
        if self._file is not None and self._is_full(config, self._file, end_us):
            self.close()
        if self._file is None:
            path = os.path.join(config.local_path, _FRAMEWORK, f"{self._node}_{self._suffix}{_UNFINISHED}")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115 - close() closes it
            self._base = config.local_path
            self._named, self._last_end_us = set(), 0
            start = {"start_time_since_epoch_in_micros": self.start_time_since_epoch_in_micros}
            self._file.write("[\n" + _row(0, start))
        if training_phase not in self._named:
            self._named.add(training_phase)
            self._file.write(",\n" + _row(entry["pid"], {"name": training_phase}))
        self._file.write(",\n" + text)
        self._last_end_us = max(self._last_end_us, end_us)

    def _is_full(self, config: ProfilerConfig, file: IO[str], end_us: int) -> bool:
        policy = config.trace_file.rotation_policy
        is_old = (end_us - self._closed_us) / CONVERT_TO_MICROSECS > policy.file_close_interval
        return is_old or file.tell() > policy.file_max_size

    def _is_healthy(self, config: ProfilerConfig) -> bool:
        return self._failures < config.trace_file.file_open_fail_threshold

    def _note(self, error: Exception) -> None:
        if not self._failures:
            get_logger().warning("events are missing from the timeline: %s", error)
        self._failures += 1


def _row(pid: int, args: dict[str, Any]) -> str:
    """Return the entries that name a row of the trace, and give it its place."""
    named = {"name": "process_name", "ph": "M", "pid": pid, "args": args}
    placed = {"name": "process_sort_index", "ph": "M", "pid": pid, "args": {"sort_index": pid}}
    return json.dumps(named) + ",\n" + json.dumps(placed)


def _node_id() -> str:
    """Return process and host as in names of files; the host is that of SageMaker's container, if this is one."""
    try:
        with open(DEFAULT_RESOURCE_CONFIG_FILE, encoding="utf-8") as file:
            host = str(json.load(file)["current_host"])
    except (OSError, ValueError, KeyError, TypeError):
        host = socket.gethostname()
    return f"{os.getpid()}-{host.replace('_', '-')}"
