"""The end of a job after a stop request: by itself, then by SIGTERM, then by SIGKILL."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final

from leadline.agent.signals import send
from leadline.monitor.processes import ProcessTree, children_first
from leadline.records.formatting import counted, duration
from leadline.records.request import Stop

KILL_AFTER_SECONDS: Final = 5.0


class StopSequence:
    """One stop request, from its arrival until every process of the job is gone.

    **Only the job** - no other process receives a signal.
    """

    def __init__(self, tree: ProcessTree, warn: Callable[[str], None]) -> None:
        self.request: Stop | None = None
        self.has_used_force = False
        """Whether signals were sent while the job was running."""
        self._tree, self._warn = tree, warn
        self._terminate_at = self._kill_at = float("inf")
        self._has_terminated = self._has_reported_kill = False
        self._grace = 0.0

    def begin(self, request: Stop, now: float, *, can_stop_itself: bool) -> None:
        """Start with a request; signals follow at once if no process of the job can stop by itself."""
        self.request = request
        self._grace = max(0.0, request.grace_seconds) if can_stop_itself else 0.0
        self._terminate_at = now + self._grace

    def advance(self, now: float, *, has_ended: bool) -> bool:
        """Send the signals whose time has come.

        Args:
            has_ended: Whether the job's first process has ended; its children get no grace period.

        Returns:
            Whether no process of the job is left, or no stop was requested.
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
        processes = children_first(self._tree.rescan())
        if processes and not has_ended:
            self.has_used_force = True
            late = f"still running {duration(self._grace)} after the stop request: " if self._grace else ""
            self._warn(f"{late}sending SIGTERM to {_processes(len(processes))}")
        for process in reversed(processes):
            send(process.identity, signal.SIGTERM)

    def _kill(self) -> None:
        processes = children_first(self._tree.rescan())
        if processes and not self._has_reported_kill:
            self._has_reported_kill = True
            after = f"{duration(KILL_AFTER_SECONDS)} after SIGTERM"
            self._warn(f"{_processes(len(processes))} still running {after}: sending SIGKILL")
        for process in processes:
            send(process.identity, signal.SIGKILL)


def _processes(count: int) -> str:
    return counted(count, "process", "processes")
