"""Whether the processes that a run's documents name are still there."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from leadline.records.names import JOB_ENDED
from leadline.store import layout
from leadline.store.documents import read_document

SILENT_SECONDS = 30.0
"""A node elsewhere that wrote nothing for so long is taken to be gone."""
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_START_TOLERANCE_SECONDS = 2.0


def is_process_alive(pid: int | None, known_at_ns: int | None = None) -> bool:
    """Whether a process of this host runs, and ran at ``known_at_ns``: its number may be another's by now."""
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


def read_workers(run: str) -> dict[str, dict[str, Any]]:
    """What each worker says of itself; one that is being rewritten this moment is read again."""
    documents = {}
    for name in _names(run, layout.WORKERS):
        document = _read_patiently(os.path.join(run, layout.WORKERS, name))
        if isinstance(document, dict):
            documents[name.removesuffix(".json")] = document
    return documents


def read_nodes(run: str) -> list[dict[str, Any]]:
    """What each node's agent says of the node."""
    found = (read_document(os.path.join(run, layout.NODES, name)) for name in _names(run, layout.NODES))
    return [each for each in found if isinstance(each, dict)]


def finished_workers(run: str, workers: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """The workers that write no more: they said so, an agent says so, or their process is gone from this host."""
    finished = {worker for node in read_nodes(run) for worker in node.get("gone", ())}
    for worker, document in workers.items():
        if document.get("state") == "ended" or _is_gone(document, document.get("pid"), document.get("time_ns")):
            finished.add(worker)
    return finished


def read_status(run: str) -> dict[str, Any]:
    """The job's status, as ``status.json`` has it; empty before there is one."""
    document = read_document(os.path.join(run, layout.STATUS))
    return document if isinstance(document, dict) else {}


def has_agent(run: str) -> bool:
    """Whether the agent that writes the run's status runs, on this host."""
    document = read_status(run)
    return is_here(document.get("node")) and is_process_alive(document.get("agent_pid"))


def is_over(run: str) -> bool:
    """Whether nobody writes this run any more."""
    return effective_status(run) in JOB_ENDED


def effective_status(run: str) -> str:
    """The job's status; of a run whose agent is gone, what its workers' documents let one say."""
    document = read_status(run)
    status = str(document.get("status", "Starting"))
    if status in JOB_ENDED or not document:
        return status
    is_away = not is_here(document.get("node"))
    if not (_is_silent(run) if is_away else _is_gone(document, document.get("agent_pid"), None)):
        return status
    workers = read_workers(run)
    if not is_away and set(workers) - finished_workers(run, workers):
        return status
    if workers:
        return "Completed" if all(each.get("state") == "ended" for each in workers.values()) else "Interrupted"
    return "Interrupted" if is_away or _is_gone(document, document.get("job_pid"), None) else status


def _is_silent(run: str) -> bool:
    """Whether a run of another node has written nothing for a while."""
    latest = 0.0
    for part in (layout.WORKERS, layout.NODES, layout.SYSTEM, layout.SERIES):
        for folder, _, names in os.walk(os.path.join(run, part)):
            latest = max([latest, *(os.path.getmtime(os.path.join(folder, name)) for name in names)])
    latest = max(latest, os.path.getmtime(os.path.join(run, layout.STATUS)))
    return time.time() - latest > SILENT_SECONDS


def _is_gone(document: Mapping[str, Any], pid: Any, known_at_ns: Any) -> bool:
    if not isinstance(pid, int):
        return False
    return is_here(document.get("node")) and not is_process_alive(pid, known_at_ns)


def is_here(node: Any) -> bool:
    """Whether a node's name is this host's."""
    return bool(node == (os.uname().nodename.replace("/", "_") or "node"))


def _names(run: str, folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(os.path.join(run, folder)) if name.endswith(".json"))
    except FileNotFoundError:
        return []


def _read_patiently(path: str) -> Any:
    for _ in range(5):
        document = read_document(path)
        if document is not None:
            return document
        time.sleep(0.001)
    return None
