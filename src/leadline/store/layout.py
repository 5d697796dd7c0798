"""The names of everything in a run directory; nothing else spells one."""

from __future__ import annotations

import os
from typing import Final

from leadline.errors import UnknownNameError
from leadline.statistics.definitions import is_vector

FORMAT: Final = 1
"""The version of this layout."""

MANIFEST: Final = "manifest.json"
STATUS: Final = "status.json"
CONTROL: Final = "control"
ACKS: Final = "control/acks"
WORKERS: Final = "workers"
NODES: Final = "nodes"
TENSORS: Final = "tensors"
SERIES: Final = "series"
TIMELINE: Final = "timeline"
SYSTEM: Final = "system"
RULES: Final = "rules"
RULE_SUMMARY: Final = "rules/summary.json"
ACTIONS: Final = "actions.jsonl"
RESERVE: Final = ".reserve"
"""A file of zeros that the agent gives up when the disk is full, so that the manifest can still say so."""
DOCTOR: Final = "doctor.json"
"""What a doctor's run is asked to find out."""
DOCTOR_REPORTS: Final = "doctor"
AGENT_LOCK: Final = "agent.lock"
"""Held by the agent that writes the run's status and keeps its judge; there is one."""
FOLDERS: Final = (CONTROL, ACKS, WORKERS, NODES, TENSORS, SERIES, TIMELINE, SYSTEM, RULES)


def worker_document(worker: str) -> str:
    """What a worker says of itself."""
    return f"{WORKERS}/{worker}.json"


def node_document(node: str) -> str:
    """What a node's agent says of the node."""
    return f"{NODES}/{node}.json"


def node_lock(node: str) -> str:
    """Held by the agent of a node."""
    return f"{NODES}/{node}.lock"


def node_processes(node: str) -> str:
    """The processes of a node that joined the run by themselves, a JSON line each."""
    return f"{NODES}/{node}.jsonl"


def doctor_report(process: str) -> str:
    """What a process of a doctor's run found."""
    return f"{DOCTOR_REPORTS}/{process}.json"


def segment(part: str, stream: str, ordinal: int) -> str:
    """An Arrow segment of a stream: ``series/<worker>/000001.arrow``."""
    return f"{part}/{stream}/{ordinal:06d}.arrow"


def tensor_segment(worker: str, ordinal: int) -> str:
    """A safetensors segment; while it is written, ``.part`` follows."""
    return f"{TENSORS}/{worker}/{ordinal:06d}.safetensors"


def tensor_key(mode: str, step: int, name: str) -> str:
    """The key of a tensor within a safetensors segment; ``step`` is the global step."""
    return f"{mode}/{step}/{name}"


def parse_tensor_key(key: str) -> tuple[str, int, str]:
    """The inverse of ``tensor_key``: mode, global step, name."""
    mode, step, name = key.split("/", 2)
    return mode, int(step), name


def vector_name(tensor: str, statistic: str) -> str:
    """The name under which a statistic of a tensor is stored that is an array itself."""
    return f"{tensor}@{statistic}"


def parse_vector_name(name: str) -> tuple[str, str] | None:
    """The inverse of ``vector_name``: tensor, statistic; None: it is the name of a tensor."""
    tensor, at, statistic = name.rpartition("@")
    if not at:
        return None
    try:
        return (tensor, statistic) if is_vector(statistic) else None
    except UnknownNameError:
        return None


def request(identifier: str) -> str:
    """A control request."""
    return f"{CONTROL}/{identifier}.json"


def acknowledgement(identifier: str, worker: str) -> str:
    """A worker's answer to a control request."""
    return f"{ACKS}/{identifier}.{worker}.json"


def rule_status(alias: str) -> str:
    """What a rule has come to."""
    return f"{RULES}/{alias}/status.json"


def rule_findings(alias: str) -> str:
    """A rule's episodes, a JSON line an event."""
    return f"{RULES}/{alias}/findings.jsonl"


def is_run(path: str) -> bool:
    """Whether a folder is a run."""
    return os.path.isfile(os.path.join(path, MANIFEST))
