"""Liveness of the processes of a run."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from leadline.records.names import JOB_ENDED
from leadline.store import layout
from leadline.store.documents import read_document

SILENT_SECONDS = 30.0
"""A node on another host that has not written for this long is considered gone."""
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_START_TOLERANCE_SECONDS = 2.0


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


def read_workers(run: str) -> dict[str, dict[str, Any]]:
    """Read the worker documents; a document that is being rewritten is retried."""
    documents = {}
    for name in _names(run, layout.WORKERS):
        document = _read_with_retry(os.path.join(run, layout.WORKERS, name))
        if isinstance(document, dict):
            documents[name.removesuffix(".json")] = document
    return documents


def read_nodes(run: str) -> list[dict[str, Any]]:
    """Read the node documents."""
    documents = (read_document(os.path.join(run, layout.NODES, name)) for name in _names(run, layout.NODES))
    return [document for document in documents if isinstance(document, dict)]


def finished_workers(run: str, workers: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the workers that have ended, according to themselves, an agent or the process table of this host."""
    finished = {worker for node in read_nodes(run) for worker in node.get("gone", ())}
    for worker, document in workers.items():
        if document.get("state") == "ended" or _is_gone(document, document.get("pid"), document.get("time_ns")):
            finished.add(worker)
    return finished


def read_status(run: str) -> dict[str, Any]:
    """Read the job's status document; empty if it does not exist yet."""
    document = read_document(os.path.join(run, layout.STATUS))
    return document if isinstance(document, dict) else {}


def has_agent(run: str) -> bool:
    """Return whether the agent that writes the run's status is running on this host."""
    document = read_status(run)
    return is_here(document.get("node")) and is_process_alive(document.get("agent_pid"))


def is_over(run: str) -> bool:
    """Return whether the run has ended, so that nothing more is written."""
    return effective_status(run) in JOB_ENDED


def effective_status(run: str) -> str:
    """Return the job's status; if its agent is gone, the status that its workers' documents imply."""
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
        return "Completed" if all(worker.get("state") == "ended" for worker in workers.values()) else "Interrupted"
    return "Interrupted" if is_away or _is_gone(document, document.get("job_pid"), None) else status


def _is_silent(run: str) -> bool:
    """Return whether a run of another node has not written for ``SILENT_SECONDS``."""
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
    """Return whether a node is this host."""
    return bool(node == (os.uname().nodename.replace("/", "_") or "node"))


def _names(run: str, folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(os.path.join(run, folder)) if name.endswith(".json"))
    except FileNotFoundError:
        return []


def _read_with_retry(path: str) -> Any:
    for _ in range(5):
        document = read_document(path)
        if document is not None:
            return document
        time.sleep(0.001)
    return None
