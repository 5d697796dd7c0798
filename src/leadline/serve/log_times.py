"""When the lines of a log were written, as its growth shows: the processes of a job write their log themselves."""

from __future__ import annotations

import os
import struct
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Final, Self

_ENTRY: Final = struct.Struct("<QQ")
"""A size of the log in bytes, and the time in ms at which it had grown to it."""
_POLL_SECONDS: Final = 0.25
_MILLISECOND_NS: Final = 1_000_000


class LogTimes:
    """Records the growth of logs in a thread, each in a file of its own beside it.

    Args:
        logs: Returns the paths of the logs, which may come into being meanwhile.
    """

    def __init__(self, logs: Callable[[], Iterable[str]]) -> None:
        self._logs = logs
        self._sizes: dict[str, int] = {}
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="log times", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._has_ended.set()
        self._thread.join()
        self.record()

    def record(self) -> None:
        """Record the logs that have grown; one that cannot be, on a full disk, is recorded later."""
        for path in self._logs():
            try:
                now = os.stat(path)
                if now.st_size > self._sizes.get(path, 0):
                    with open(_times_of(path), "ab") as file:
                        file.write(_ENTRY.pack(now.st_size, now.st_mtime_ns // _MILLISECOND_NS))
                    self._sizes[path] = now.st_size
            except OSError:
                continue

    def _follow(self) -> None:
        while not self._has_ended.wait(_POLL_SECONDS):
            self.record()


def _times_of(log: str) -> str:
    return f"{log}.times"


def _entries(log: str) -> Sequence[tuple[int, int]]:
    try:
        with open(_times_of(log), "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return ()
    return list(_ENTRY.iter_unpack(data[: len(data) - len(data) % _ENTRY.size]))


def line_times(log: str, ends: Iterable[int]) -> list[int]:
    """Return the times in ms at which parts of a log were written, to a quarter of a second.

    Args:
        ends: The offsets behind the parts, in bytes.
    """
    entries = _entries(log)
    sizes = [size for size, _ in entries]
    latest = os.stat(log).st_mtime_ns // _MILLISECOND_NS
    indices = [bisect_left(sizes, end) for end in ends]
    return [entries[index][1] if index < len(entries) else latest for index in indices]


def first_and_last(log: str) -> tuple[int, int] | None:
    """Return the times in ms of the first and the last line of a log; None: it is empty."""
    entries = _entries(log)
    return (entries[0][1], entries[-1][1]) if entries else None
