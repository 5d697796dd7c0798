"""Trace files as smdebug's profiler writes them below ``framework/pevents``: a process's events in Chrome's format."""

from __future__ import annotations

import os
import time
from typing import Final, TextIO

from leadline.formats.chrome_trace import TraceWriter, encoded, entry
from leadline.records.json_object import JsonObject
from leadline.store.documents import make_folder
from leadline.trials.folder import FRAMEWORK

TIMELINE: Final = "pythontimeline.json"
EVENTS_FOLDER: Final = f"{FRAMEWORK}/pevents"
HOUR: Final = "%Y%m%d%H"
"""The names of the folders: the hour in UTC of the last event in a file."""
_UNFINISHED: Final = ".tmp"
_SECOND_US: Final = 1_000_000


class TraceFiles:
    """Writes events; a file is named after its last event when it is complete.

    Args:
        folder: The folder of the profiler's files.
        process: Process and host: ``18612-algo-1``.
        start_us: The time from which events count, in microseconds since the epoch.
        suffix: The end of the names of the files.
    """

    def __init__(self, folder: str, process: str, start_us: int, suffix: str = TIMELINE) -> None:
        self._folder, self._process, self._suffix = folder, process, suffix
        self._start_us = start_us
        self._file: TextIO | None = None
        self._writer: TraceWriter | None = None
        self._phases: dict[str, int] = {}
        """The process number that stands for each phase, in all files."""
        self._named: set[str] = set()
        """The phases whose names are in the current file."""
        self._last_end_us = 0
        """The end of the last event in the current file."""

    @property
    def bytes(self) -> int:
        """The size of the current file; 0 without one."""
        return self._file.tell() if self._file is not None else 0

    @property
    def is_open(self) -> bool:
        """Whether a file is begun."""
        return self._file is not None

    def put(
        self, phase: str, name: str, start_us: int, duration_us: int, *, kind: str = "X", facts: JsonObject
    ) -> None:
        """Write an event.

        Args:
            phase, name: What it is listed under, and its name.
            kind: ``X``, ``B``, ``E`` or ``i`` of Chrome's trace format.
            facts: Further facts about it.
        Raises:
            OSError: The file could not be written.
            TypeError, ValueError: A fact is nothing that JSON has.
        """
        facts = dict(facts)
        pid = self._phases.setdefault(phase, len(self._phases) + 1)
        text = encoded(
            entry(
                kind,
                name,
                pid,
                start_us=start_us - self._start_us,
                duration_us=duration_us if kind == "X" else None,
                scope=facts.pop("s", "t") if kind == "i" else "",
                args=facts,
            )
        )
        writer = self._writer or self._open()
        if phase not in self._named:
            self._named.add(phase)
            writer.put(*_row(pid, {"name": phase}))
        writer.put(text)
        self._last_end_us = max(self._last_end_us, start_us + duration_us)

    def flush(self) -> None:
        """Hand what was written to the kernel."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Complete the current file; another event begins another one.

        Raises:
            OSError: It could not be written.
        """
        file, writer, self._file, self._writer = self._file, self._writer, None, None
        if file is None or writer is None:
            return
        with file:
            writer.close()
        hour = time.strftime(HOUR, time.gmtime(self._last_end_us // _SECOND_US))
        folder = os.path.join(self._folder, EVENTS_FOLDER, hour)
        make_folder(folder)
        os.rename(file.name, os.path.join(folder, f"{self._last_end_us}_{self._process}_{self._suffix}"))

    def _open(self) -> TraceWriter:
        path = os.path.join(self._folder, FRAMEWORK, f"{self._process}_{self._suffix}{_UNFINISHED}")
        make_folder(os.path.dirname(path))
        self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115 - close() closes it
        self._named, self._last_end_us = set(), 0
        self._writer = TraceWriter(self._file)
        self._writer.put(*_row(0, {"start_time_since_epoch_in_micros": self._start_us}))
        return self._writer


def _row(pid: int, args: JsonObject) -> tuple[str, str]:
    """Return the entries that name a row of the trace, and give it its place."""
    return (
        encoded(entry("M", "process_name", pid, args=args)),
        encoded(entry("M", "process_sort_index", pid, args={"sort_index": pid})),
    )
