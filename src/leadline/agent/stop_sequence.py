"""Ending a job that was asked to stop: by itself, by SIGTERM, by SIGKILL, and no other process with it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final

from leadline.agent.signals import send
from leadline.monitor.processes import ProcessTree, leaves_first
from leadline.records.formatting import counted, duration
from leadline.records.request import Request

KILL_AFTER_SECONDS: Final = 5.0


class StopSequence:
    """One stop request on its way, from the asking to the last process that is gone."""

    def __init__(self, tree: ProcessTree, tell: Callable[[str], None]) -> None:
        self.request: Request | None = None
        self.has_used_force = False
        """Whether signals had to be sent while the job ran."""
        self._tree, self._tell = tree, tell
        self._terminate_at = self._kill_at = float("inf")
        self._has_terminated = self._has_told_kill = False
        self._grace = 0.0

    def begin(self, request: Request, now: float, *, can_be_heard: bool) -> None:
        """Take up a request; where nobody in the job can hear it, signals follow at once."""
        self.request = request
        self._grace = max(0.0, request.grace_seconds) if can_be_heard else 0.0
        self._terminate_at = now + self._grace

    def advance(self, now: float, *, has_ended: bool) -> bool:
        """Do what is due.

        Args:
            has_ended: Whether the job's first process has ended; what it left behind has no grace.
        Returns:
            Whether nothing is left to do.
        """
        if self.request is None:
            return True
        if not self._has_terminated:
            if not has_ended and now < self._terminate_at:
                return False
            self._terminate(now, has_ended=has_ended)
        if now >= self._kill_at:
            self._kill()
        return has_ended and not self._tree.rescan()

    def _terminate(self, now: float, *, has_ended: bool) -> None:
        self._has_terminated = True
        self._kill_at = now + KILL_AFTER_SECONDS
        processes = leaves_first(self._tree.rescan())
        if processes and not has_ended:
            self.has_used_force = True
            late = f"it still runs {duration(self._grace)} after it was asked to stop: " if self._grace else ""
            self._tell(f"{late}SIGTERM to {counted(len(processes), 'process', 'processes')}")
        for process in reversed(processes):
            send(process.identity, signal.SIGTERM)

    def _kill(self) -> None:
        processes = leaves_first(self._tree.rescan())
        if processes and not self._has_told_kill:
            self._has_told_kill = True
            after = f"{duration(KILL_AFTER_SECONDS)} after SIGTERM"
            self._tell(f"{_processes(len(processes))} still there {after}: SIGKILL")
        for process in processes:
            send(process.identity, signal.SIGKILL)


def _processes(count: int) -> str:
    return counted(count, "process", "processes")
