"""The compaction of large runs while they grow, in a short-lived process of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import Final

from leadline.agent.signals import SignalGate
from leadline.process.child import Child
from leadline.process.interpreter import own_command, own_environment
from leadline.store import layout
from leadline.store.segments import row_bytes

_CHECK_SECONDS: Final = 30.0
_GROWTH_BYTES: Final = 32 << 20
_THRESHOLD: Final = "LEADLINE_COMPACT_BYTES"
"""The variable that sets after how many new bytes a run is compacted."""
_FOLDERS: Final = (layout.SYSTEM, layout.TIMELINE, layout.SERIES)

Warn = Callable[[str], None]


def compaction_command(run: str) -> list[str] | None:
    """Return the command that compacts a run; None where compaction is not installed."""
    if find_spec("leadline.compaction") is None:
        return None
    return own_command("leadline.compaction", run)


class Compaction:
    """Compacts a run each time that it has grown by 32 MiB, and once more at its end.

    **Never affects the training** - a compaction that fails is reported once and not tried again.
    """

    def __init__(self, run: str, environment: Mapping[str, str], gate: SignalGate, *, warn: Warn) -> None:
        self._child: Child | None = None
        self._run, self._gate, self._warn = run, gate, warn
        self._command = compaction_command(run)
        self._environment = own_environment(environment) | {"LEADLINE_DISABLED": "1"}
        threshold = environment.get(_THRESHOLD, "")
        self._growth_bytes = int(threshold) if threshold.isdecimal() else _GROWTH_BYTES
        self._compacted_bytes = 0
        self._check_at = 0.0
        self._has_failed = False

    def poll(self, now: float) -> None:
        """Notice the end of a compaction, and start one if the run has grown enough, checked every 30 s."""
        if self._child is not None and self._child.code is not None:
            code, self._child = self._child.code, None
            if code:
                self._fail(f"compaction of the run failed (status {code})")
        if now < self._check_at or self._child is not None or self._has_failed:
            return
        self._check_at = now + min(_CHECK_SECONDS, _CHECK_SECONDS * self._growth_bytes / _GROWTH_BYTES)
        current_bytes = raw_bytes(self._run)
        if current_bytes - self._compacted_bytes >= self._growth_bytes:
            self._compacted_bytes = current_bytes
            self._start()

    def finish(self) -> None:
        """Compact the rest of a large run, without waiting for the end of the compaction."""
        if not self._has_failed and raw_bytes(self._run) >= self._growth_bytes:
            self._start("--final")

    def _start(self, *options: str) -> None:
        if self._command is None:
            return
        try:
            self._child = self._gate.spawn([*self._command, *options], self._environment, has_own_session=True)
        except OSError as error:
            self._fail(f"cannot start the compaction of the run: {error.strerror}")

    def _fail(self, text: str) -> None:
        self._has_failed = True
        self._warn(f"{text}; opening it will be slower, nothing else is affected")


def raw_bytes(run: str) -> int:
    """Return the size of all segments of a run, as if none were compressed."""
    size = 0
    for name in _FOLDERS:
        for folder in _entries(os.path.join(run, name)):
            with suppress(FileNotFoundError):  # the run is being removed
                segments = [file for file in _entries(folder.path) if file.name.endswith(layout.SEGMENTS)]
                size += sum(row_bytes(file.name, file.stat().st_size) for file in segments)
    return size


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
