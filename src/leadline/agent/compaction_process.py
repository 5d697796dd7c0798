"""Having large runs compacted while they grow: now and then a short process; without it the training goes on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import Final

from leadline.agent.signals import SignalGate, spawn
from leadline.store import layout

_LOOK_SECONDS: Final = 30.0
_GROWTH_BYTES: Final = 32 << 20
_THRESHOLD: Final = "LEADLINE_COMPACT_BYTES"
"""How much must have come before a run is compacted, for tests and for who wants another measure."""
_PARTS: Final = (layout.SYSTEM, layout.TIMELINE, layout.SERIES)

Tell = Callable[[str], None]


def compaction_command(run: str) -> list[str] | None:
    """How a run is compacted; None where nothing can."""
    if find_spec("leadline.compaction") is None:
        return None
    return [sys.executable, "-m", "leadline.compaction", run]


class Compaction:
    """Starts the compaction of a run each time that much has come, and once more at its end.

    Args:
        sessions: What lives in one of these is no part of the job; those of the compactions are added.
    """

    def __init__(
        self, run: str, environment: Mapping[str, str], gate: SignalGate, *, sessions: set[int], tell: Tell
    ) -> None:
        self.pid: int | None = None
        self._run, self._gate, self._sessions, self._tell = run, gate, sessions, tell
        self._command = compaction_command(run)
        self._environment = dict(environment) | {"LEADLINE_DISABLED": "1"}
        told = environment.get(_THRESHOLD, "")
        self._growth_bytes = int(told) if told.isdecimal() else _GROWTH_BYTES
        self._compacted_bytes = 0
        self._look_at = 0.0
        self._has_failed = False

    def poll(self, now: float) -> None:
        """Look now and then whether enough has come."""
        if now < self._look_at or self.pid is not None or self._has_failed:
            return
        self._look_at = now + min(_LOOK_SECONDS, _LOOK_SECONDS * self._growth_bytes / _GROWTH_BYTES)
        there = raw_bytes(self._run)
        if there - self._compacted_bytes >= self._growth_bytes:
            self._compacted_bytes = there
            self._start()

    def finish(self) -> None:
        """The run is over: compact the rest of a large one; nobody waits for it."""
        if not self._has_failed and raw_bytes(self._run) >= self._growth_bytes:
            self._start("--final")

    def on_exit(self, pid: int, code: int) -> None:
        """A child has ended; perhaps it was this."""
        if pid != self.pid:
            return
        self.pid = None
        if code:
            self._complain(f"compacting the run failed (status {code})")

    def _start(self, *options: str) -> None:
        if self._command is None:
            return
        try:
            self.pid = spawn(
                [*self._command, *options],
                self._environment,
                self._gate,
                is_quiet=True,
                has_own_session=True,
                closes_output=True,
            )
            self._sessions.add(self.pid)
        except OSError as error:
            self._complain(f"the run cannot be compacted: {error.strerror}")

    def _complain(self, text: str) -> None:
        self._has_failed = True
        self._tell(f"{text}; looking at it will be slow, and nothing else")


def raw_bytes(run: str) -> int:
    """How many bytes the segments of a run have."""
    size = 0
    for part in _PARTS:
        for folder in _entries(os.path.join(run, part)):
            with suppress(FileNotFoundError):  # somebody removes the run
                size += sum(each.stat().st_size for each in _entries(folder.path) if each.name.endswith(".arrow"))
    return size


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError):
        return []
