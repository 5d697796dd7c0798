"""Processes of a job, read from ``/proc`` and identified by pid and start time."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

PROC = "/proc"

Identity = tuple[int, int]
"""Pid and start time (clock ticks since boot), which identify a process uniquely."""


class ProcessStat(NamedTuple):
    """The required fields of ``/proc/<pid>/stat``."""

    pid: int
    state: str
    parent: int
    session: int
    cpu_ticks: int
    threads: int
    start: int
    rss_pages: int

    @property
    def identity(self) -> Identity:
        return self.pid, self.start

    @property
    def is_alive(self) -> bool:
        """Whether the process is still running; a zombie is not."""
        return self.state not in "ZXx"


def read_stat(pid: int, proc: str = PROC) -> ProcessStat | None:
    """Return the state of a process; None if it does not exist."""
    try:
        descriptor = os.open(f"{proc}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = os.read(descriptor, 2048)
    except OSError:  # the process ended between the two calls
        return None
    finally:
        os.close(descriptor)
    # the name in parentheses may contain any character, so the fields begin after the last parenthesis
    fields = data[data.rfind(b")") + 2 :].split(b" ", 22)
    if len(fields) < 22:
        return None
    return ProcessStat(
        pid=pid,
        state=fields[0].decode(),
        parent=int(fields[1]),
        session=int(fields[3]),
        cpu_ticks=int(fields[11]) + int(fields[12]),
        threads=int(fields[17]),
        start=int(fields[19]),
        rss_pages=int(fields[21]),
    )


def identify(pid: int, proc: str = PROC) -> Identity | None:
    """Return the identity of a running process; None if there is none."""
    stat = read_stat(pid, proc)
    return stat.identity if stat is not None and stat.is_alive else None


def list_pids(proc: str = PROC) -> set[int]:
    """Return the pids of all processes of the machine."""
    return {int(name) for name in os.listdir(proc) if name.isdigit()}


class ProcessTree:
    """The processes of one job.

    A process belongs to the job if it is one of ``first``, if its parent belongs to the job, or if its parent is the
    ``subreaper`` (the agent, which inherits the job's orphans). ``excluded`` processes (the agent itself), sessions in
    ``foreign_sessions`` (the judge's), ``foreign_pids`` and their descendants never belong to it.

    A process that did not belong once never will, so a rescan only reads new pids: its cost is one listing of
    ``/proc`` instead of one read for each process of the machine.

    Without a subreaper, an orphan whose parent ended between two scans is missed.
    """

    def __init__(
        self,
        *,
        first: Iterable[Identity] = (),
        subreaper: int | None = None,
        excluded: Iterable[int] = (),
        proc: str = PROC,
    ) -> None:
        self._first, self._subreaper, self._proc = set(first), subreaper, proc
        self._excluded = set(excluded)
        self.foreign_sessions: set[int] = set()
        self.foreign_pids: set[int] = set()
        self._unrelated: set[int] = set()
        self._members: dict[int, ProcessStat] = {}

    def add(self, identity: Identity) -> None:
        """Add a process to ``first``."""
        self._first.add(identity)
        self._unrelated.discard(identity[0])

    def refresh(self) -> list[ProcessStat]:
        """Reread the known members, without looking for new ones."""
        for pid, known in list(self._members.items()):
            stat = read_stat(pid, self._proc)
            if stat is None or stat.start != known.start or not stat.is_alive:
                del self._members[pid]
            else:
                self._members[pid] = stat
        return list(self._members.values())

    def rescan(self) -> list[ProcessStat]:
        """Reread the known members, and look for new ones."""
        self.refresh()
        pids = list_pids(self._proc)
        self._unrelated &= pids
        unknown = pids - self._unrelated - self._members.keys()
        stats = [stat for stat in (read_stat(pid, self._proc) for pid in sorted(unknown)) if stat is not None]
        self._add_members(stats)
        self._unrelated.update(
            stat.pid
            for stat in stats
            # an unknown parent may have just ended, and its child may soon be adopted: check again
            if stat.pid not in self._members and (stat.parent in pids or stat.parent == 0)
        )
        return list(self._members.values())

    def _add_members(self, stats: list[ProcessStat]) -> None:
        candidates = [stat for stat in stats if stat.is_alive and self._may_belong(stat)]
        is_growing = True
        while is_growing:
            new = [stat for stat in candidates if self._belongs(stat)]
            self._members.update((stat.pid, stat) for stat in new)
            candidates = [stat for stat in candidates if stat.pid not in self._members]
            is_growing = bool(new)

    def _may_belong(self, stat: ProcessStat) -> bool:
        is_foreign = stat.session in self.foreign_sessions or stat.pid in self.foreign_pids
        return stat.pid not in self._excluded and not is_foreign

    def _belongs(self, stat: ProcessStat) -> bool:
        return stat.parent in self._members or stat.parent == self._subreaper or stat.identity in self._first


def children_first(stats: Iterable[ProcessStat]) -> list[ProcessStat]:
    """Return processes ordered so that children precede their parents."""
    by_pid = {stat.pid: stat for stat in stats}

    def depth(stat: ProcessStat) -> int:
        steps, seen = 0, {stat.pid}
        while stat.parent in by_pid and stat.parent not in seen:
            stat = by_pid[stat.parent]
            seen.add(stat.pid)
            steps += 1
        return steps

    return sorted(by_pid.values(), key=depth, reverse=True)
