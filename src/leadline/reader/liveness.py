"""Liveness of the processes of a run."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from leadline.records.documents import RunStatus, WorkerDocument
from leadline.records.names import JOB_ENDED
from leadline.store import layout
from leadline.store.folder_watch import FolderTree
from leadline.store.incarnations import read_incarnations
from leadline.store.node_lock import SIGN_SECONDS, node_name
from leadline.store.run_state import document_paths, read_nodes, read_status, read_workers, recorded_end

_PARTS: Final = (layout.SERIES, layout.TIMELINE, layout.SYSTEM, layout.TENSORS)

SILENT_SECONDS = 30.0
"""A node on another host that has not written for this long is considered gone."""
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_START_TOLERANCE_SECONDS = 2.0
_POLL_SECONDS = 0.2


def is_process_alive(pid: int | None, known_at_ns: int | None = None) -> bool:
    """Return whether a process of this host is running and is the one of ``known_at_ns``, as pids are reused."""
    if not pid:
        return False
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return False
    if fields[0] in (b"Z", b"X"):
        return False
    if known_at_ns is None:
        return True
    started_seconds = _boot_seconds() + int(fields[19]) / _CLOCK_TICKS
    return started_seconds <= known_at_ns / 1e9 + _START_TOLERANCE_SECONDS


def _boot_seconds() -> float:
    with open("/proc/uptime", "rb") as file:
        return time.time() - float(file.read().split()[0])


def finished_workers(run: str, workers: Mapping[str, WorkerDocument]) -> set[str]:
    """Return the workers that have ended, according to themselves, an agent or the process table of this host."""
    finished = {worker for node in read_nodes(run) for worker in node.gone}
    incarnation = read_incarnations(run).number
    for worker, document in workers.items():
        is_of_earlier = incarnation > 0 and (not document.starts or document.starts[-1].number < incarnation)
        if is_of_earlier or document.state == "ended" or _is_gone(document.node, document.pid, document.time_ns):
            finished.add(worker)
    return finished


def has_agent(run: str) -> bool:
    """Return whether the agent that writes the run's status is running on this host."""
    document = read_status(run)
    return is_here(document.node) and is_process_alive(document.agent_pid)


def is_over(run: str) -> bool:
    """Return whether the run has ended, so that nothing more is written."""
    return effective_status(run) in JOB_ENDED


def effective_status(run: str) -> str:
    """Return the job's status; if its agent is gone, the status that its workers recorded."""
    return effective_document(run).status


def effective_document(run: str) -> RunStatus:
    """Return the status document; if its agent is gone, with the end that the workers of the job recorded."""
    document = read_status(run)
    if document.status in JOB_ENDED or document == RunStatus():
        return document
    is_away = _is_away(run, document.node)
    if not (_is_silent(run) if is_away else _is_gone(document.node, document.agent_pid)):
        return document
    workers = read_workers(run)
    if not is_away and set(workers) - finished_workers(run, workers):
        return document
    if not workers and not is_away and not _is_gone(document.node, document.job_pid):
        return document
    is_pending = recorded_end(run, workers, document.job_pid).is_pending
    if is_pending and any(not _is_gone(worker.node, worker.pid) for worker in workers.values()):
        return document
    return ended_document(run)


def ended_document(run: str) -> RunStatus:
    """Return the status document of a run without running processes, with the end that its workers recorded."""
    document, workers = read_status(run), read_workers(run)
    if document.status in JOB_ENDED:
        return document
    end = recorded_end(run, workers, document.job_pid)
    ended_ns = max((worker.ended_ns or worker.time_ns for worker in workers.values()), default=None)
    status = end.status if workers and end.status else "Interrupted"
    return replace(document, status=status, exit_status=end.exit_status, ended_ns=ended_ns)


def status_to_join(run: str) -> str:
    """Return the job's status as a process sees it that joins the run, on any node.

    A run of another node that seems to have been silent for a while is watched for a moment: the clocks of machines
    may differ by minutes.
    """
    document = effective_document(run)
    is_derived = document.status in JOB_ENDED and document != read_status(run)
    return "InProgress" if is_derived and not is_here(document.node) and _gives_signs(run) else document.status


def _gives_signs(run: str) -> bool:
    """Return whether the agent of a node gives a sign of life within the next seconds."""
    before, end = _signs(run), time.monotonic() + 2 * SIGN_SECONDS
    while before and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
        if _signs(run) != before:
            return True
    return False


def _signs(run: str) -> dict[str, int]:
    """Return when each node gave its last sign of life; an agent that ends removes its file."""
    found: dict[str, int] = {}
    for node in document_paths(run, layout.NODES):
        with suppress(FileNotFoundError):
            found[node] = os.lstat(os.path.join(run, layout.node_sign(node))).st_mtime_ns
    return found


def why_derived(run: str) -> str:
    """Return why the status of a run is not that of its agent, and what is unknown of its end; empty: it is."""
    document = effective_document(run)
    if document.status not in JOB_ENDED or document.agent_pid is None or document == read_status(run):
        return ""
    return "the agent ended before the job" + ("; exit status unknown" if document.exit_status is None else "")


def _is_silent(run: str) -> bool:
    """Return whether a run of another node has not written for ``SILENT_SECONDS``."""
    latest = 0.0
    for part in (layout.WORKERS, layout.NODES, layout.SYSTEM, layout.SERIES):
        for folder, _, names in os.walk(os.path.join(run, part)):
            latest = max([latest, *(_modified(os.path.join(folder, name)) for name in names)])
    latest = max(latest, _modified(os.path.join(run, layout.STATUS)))
    return time.time() - latest > SILENT_SECONDS


def _modified(path: str) -> float:
    """Return when a file was modified; 0.0 if it is not there."""
    try:
        return os.lstat(path).st_mtime
    except FileNotFoundError:
        return 0.0


def _is_gone(node: str | None, pid: int | None, known_at_ns: int | None = None) -> bool:
    return pid is not None and is_here(node) and not is_process_alive(pid, known_at_ns or None)


def _is_away(run: str, node: str | None) -> bool:
    """Return whether the processes of this host say nothing about a node's agent.

    The mirror of a run in an object store lags behind: the agent may have ended after it wrote the final status.
    """
    return not is_here(node) or os.path.exists(os.path.join(run, layout.MIRROR))


def is_here(node: str | None) -> bool:
    """Return whether a node is this host."""
    return node == node_name()


class RunWatch:
    """Detects new and growing segments."""

    def __init__(self, run: str) -> None:
        self._folders = [FolderTree(os.path.join(run, part)) for part in _PARTS]
        self._states: list[tuple[int, tuple[int, ...]]] = []

    def has_changed(self) -> bool:
        """Return whether a segment was added or grew since the last call."""
        states = [state for folder in self._folders for state in folder.states()]
        before, self._states = self._states, [(state.files, state.sizes) for state in states if state.files]
        return self._states != before
