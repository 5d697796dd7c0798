"""The names of everything in a run directory; nothing else spells one."""

from __future__ import annotations

import os
from functools import lru_cache
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
COMMANDS: Final = "commands"
PROFILES: Final = "profiles"
WINDOW: Final = "window.json"
"""What a profiling window was, in its folder; once it is there the window is whole."""
FUNCTIONS: Final = "functions.arrow"
"""cProfile's functions, in a window's folder."""
CALLS: Final = "calls.arrow"
"""Which of them called which."""
LOADING: Final = "loading.arrow"
"""What data loaders did, in a window's folder."""
TRACE: Final = "trace.json.gz"
"""The Chrome trace that torch.profiler wrote, in a window's folder."""
TRACE_STEPS: Final = "steps.json"
"""Which step of the trace was when."""
MODULE_MARK: Final = "leadline.module/"
"""How the marks in a trace begin that say in which module's forward pass operators were called."""
COMPACT: Final = "compact"
"""What compaction derived from the other parts; it may be deleted at any time."""
COMPACT_LOCK: Final = "compact/lock"
"""Held by who compacts the run; there is one."""
RESERVE: Final = ".reserve"
"""A file of zeros that the agent gives up when the disk is full, so that the manifest can still say so."""
REPORTS: Final = "reports"
"""Reports that rules keep up to date, or that somebody made."""
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


def report_page(product: str) -> str:
    """A report as a page: ``reports/profiling.html``."""
    return f"{REPORTS}/{product}.html"


def report_notebook(product: str) -> str:
    """The notebook that makes a report anew."""
    return f"{REPORTS}/{product}.ipynb"


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


@lru_cache(maxsize=1 << 14)  # a reader asks it of every array at every step
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


def profile(worker: str, window: str) -> str:
    """The folder of a profiling window."""
    return f"{PROFILES}/{worker}/{window}"


def horovod(worker: str) -> str:
    """The folder of what Horovod told of its work."""
    return f"{PROFILES}/{worker}/horovod"


def horovod_copy(ordinal: int) -> str:
    """A copy of the file that Horovod writes, in that folder."""
    return f"timeline-{ordinal:03d}.json"


def horovod_clock(ordinal: int) -> str:
    """What tells the wall clock's time of it."""
    return f"clock-{ordinal:03d}.json"


def command_output(identifier: str) -> str:
    """What a command printed that a request had run."""
    return f"{COMMANDS}/{identifier}.log"


def module_mark(module: str) -> str:
    """The mark of a module, by its dotted name."""
    return f"{MODULE_MARK}{module}"


def loading_mark(process: int) -> str:
    """Stands among the profiles while a training's data loaders are looked at; its workers write into it."""
    return f".loading-{process}"


def out_of_memory(worker: str, ordinal: int) -> str:
    """Whose the memory was when it ran out."""
    return f"{PROFILES}/{worker}/out-of-memory-{ordinal}.json"


def callstacks(ordinal: int) -> str:
    """One of pyinstrument's sessions, in a window's folder."""
    return f"callstacks-{ordinal:03d}.json"


def rule_status(alias: str) -> str:
    """What a rule has come to."""
    return f"{RULES}/{alias}/status.json"


def rule_findings(alias: str) -> str:
    """A rule's episodes, a JSON line an event."""
    return f"{RULES}/{alias}/findings.jsonl"


def compact_part(part: str, stream: str, first: int, last: int) -> str:
    """What was derived of a stream, in the ``first``-th to the ``last``-th go."""
    return f"{COMPACT}/{part}/{stream}/{first:06d}-{last:06d}.parquet"


def parse_compact_part(name: str) -> tuple[int, int] | None:
    """The inverse, of a file's name; None: it is none."""
    first, dash, last = name.removesuffix(".parquet").partition("-")
    whole = name.endswith(".parquet") and dash and first.isdecimal() and last.isdecimal()
    return (int(first), int(last)) if whole and int(first) <= int(last) else None


def is_run(path: str) -> bool:
    """Whether a folder is a run."""
    return os.path.isfile(os.path.join(path, MANIFEST))
