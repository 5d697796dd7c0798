"""The processes of a job: read raw from ``/proc``, known by pid and start time."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

PROC = "/proc"

Identity = tuple[int, int]
"""Pid and start time (clock ticks since boot): what no other process ever bears."""


class ProcessStat(NamedTuple):
    """What ``/proc/<pid>/stat`` says, as far as it is needed."""

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
        """Whether it still runs: a zombie does not."""
        return self.state not in "ZXx"


def read_stat(pid: int, proc: str = PROC) -> ProcessStat | None:
    """The state of a process, or None where there is none."""
    try:
        descriptor = os.open(f"{proc}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = os.read(descriptor, 2048)
    except OSError:  # it ended between the two calls
        return None
    finally:
        os.close(descriptor)
    # the name stands in parentheses and may hold any character, so the fields begin behind the last one
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
    """The identity of a running process, or None where there is none."""
    stat = read_stat(pid, proc)
    return stat.identity if stat is not None and stat.is_alive else None


def list_pids(proc: str = PROC) -> set[int]:
    """The pids of all processes of the machine."""
    return {int(name) for name in os.listdir(proc) if name.isdigit()}


class ProcessTree:
    """The processes of one job.

    A process belongs to the job when it is among ``first``, when its parent belongs to the job, or when its parent is
    ``adopter`` (the agent, which as subreaper inherits the job's orphans). ``outsiders`` (the agent itself) and
    sessions in ``foreign_sessions`` (the judge's) never do, nor what descends from them.

    A pid that was seen once and did not belong cannot come to belong, so a rescan reads only the new ones: its
    price is one listing of ``/proc``, not a read per process of the machine.

    Without an adopter an orphan whose parent ended between two scans is missed.
    """

    def __init__(
        self,
        *,
        first: Iterable[Identity] = (),
        adopter: int | None = None,
        outsiders: Iterable[int] = (),
        proc: str = PROC,
    ) -> None:
        self._first, self._adopter, self._proc = set(first), adopter, proc
        self._outsiders = set(outsiders)
        self.foreign_sessions: set[int] = set()
        self._strangers: set[int] = set()
        self._members: dict[int, ProcessStat] = {}

    def admit(self, identity: Identity) -> None:
        """Add a process to ``first``."""
        self._first.add(identity)
        self._strangers.discard(identity[0])

    def refresh(self) -> list[ProcessStat]:
        """Read the known members again, without looking for new ones."""
        for pid, known in list(self._members.items()):
            stat = read_stat(pid, self._proc)
            if stat is None or stat.start != known.start or not stat.is_alive:
                del self._members[pid]
            else:
                self._members[pid] = stat
        return list(self._members.values())

    def rescan(self) -> list[ProcessStat]:
        """Read the known members again, and look for new ones."""
        self.refresh()
        pids = list_pids(self._proc)
        self._strangers &= pids
        unknown = pids - self._strangers - self._members.keys()
        stats = [stat for stat in (read_stat(pid, self._proc) for pid in sorted(unknown)) if stat is not None]
        self._admit(stats)
        self._strangers.update(
            stat.pid
            for stat in stats
            # an unknown parent may have ended just now, and its child be adopted a moment later: ask again
            if stat.pid not in self._members and (stat.parent in pids or stat.parent == 0)
        )
        return list(self._members.values())

    def _admit(self, stats: list[ProcessStat]) -> None:
        waiting = [stat for stat in stats if stat.is_alive and self._may_belong(stat)]
        is_growing = True
        while is_growing:
            fresh = [stat for stat in waiting if self._belongs(stat)]
            self._members.update((stat.pid, stat) for stat in fresh)
            waiting = [stat for stat in waiting if stat.pid not in self._members]
            is_growing = bool(fresh)

    def _may_belong(self, stat: ProcessStat) -> bool:
        return stat.pid not in self._outsiders and stat.session not in self.foreign_sessions

    def _belongs(self, stat: ProcessStat) -> bool:
        return stat.parent in self._members or stat.parent == self._adopter or stat.identity in self._first


def leaves_first(stats: Iterable[ProcessStat]) -> list[ProcessStat]:
    """Processes ordered so that no parent comes before its children."""
    by_pid = {stat.pid: stat for stat in stats}

    def depth(stat: ProcessStat) -> int:
        steps, seen = 0, {stat.pid}
        while stat.parent in by_pid and stat.parent not in seen:
            stat = by_pid[stat.parent]
            seen.add(stat.pid)
            steps += 1
        return steps

    return sorted(by_pid.values(), key=depth, reverse=True)
