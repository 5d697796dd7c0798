"""Names of all files and folders in a run directory; no other module spells them."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Final

from leadline.errors import DamagedRunError, UnknownNameError
from leadline.statistics.definitions import is_vector

FORMAT: Final = 1
"""The version of this layout."""

MANIFEST: Final = "manifest.json"
STATUS: Final = "status.json"
UNCAUGHT: Final = "uncaught.json"
"""The exception that ended a process of the job; for one that fails before its first step."""
CONTROL: Final = "control"
ACKS: Final = "control/acks"
WORKERS: Final = "workers"
NODES: Final = "nodes"
TENSORS: Final = "tensors"
PACK: Final = ".arrays"
"""Suffix of a file with array statistics: blocks as of safetensors, one after the other."""
COMPRESSED: Final = ".arrow.gz"
"""Suffix of a compressed segment."""
SEGMENTS: Final = (".arrow", COMPRESSED)
"""Suffixes of segments."""
SERIES: Final = "series"
TIMELINE: Final = "timeline"
SYSTEM: Final = "system"
RULES: Final = "rules"
RULE_SUMMARY: Final = "rules/summary.json"
ACTIONS: Final = "actions.jsonl"
COMMANDS: Final = "commands"
PROFILES: Final = "profiles"
WINDOW: Final = "window.json"
"""Description of a profile window, in its folder; written when the window is complete."""
FUNCTIONS: Final = "functions.arrow"
"""cProfile's functions, in a window's folder."""
CALLS: Final = "calls.arrow"
"""cProfile's callers and callees, in a window's folder."""
LOADING: Final = "loading.arrow"
"""Events of data loaders, in a window's folder."""
TRACE: Final = "trace.json.gz"
"""The Chrome trace that torch.profiler wrote, in a window's folder."""
SPACE: Final = "trace.xplane.pb"
"""The XSpace that the profiler of TensorFlow wrote, in a window's folder."""
TRACE_STEPS: Final = "steps.json"
"""Times of the steps of a trace; with an XSpace also the names of its layers and optimizers."""
TRACE_PHASE: Final = "leadline.phase"
"""The argument of an event of a trace that tells its phase."""
MODULE_ANNOTATION: Final = "leadline.module/"
"""Prefix of the trace annotations that name the module whose forward pass called an operator."""
OVERHEAD_ANNOTATION: Final = "leadline.overhead"
"""The trace annotation around computations of Leadline."""
COMPACT: Final = "compact"
"""Files that compaction derived from the other parts; they may be deleted at any time."""
COMPACT_LOCK: Final = "compact/lock"
"""Lock held by the one process that compacts the run."""
RESERVE: Final = ".reserve"
"""A file of zeros that the agent deletes when the disk is full, so that the manifest can still be written."""
REPORTS: Final = "reports"
"""Reports, updated by rules or created on request."""
NOTES: Final = "notes.json"
"""Note and tags that a person gave the run; everything else is written by processes."""
HOOK_COLLECTIONS: Final = "collections.json"
"""The collections of a hook of smdebug's interface."""
TRIAL: Final = "trial.json"
"""What an imported run keeps of its trial beside its data: origin, collections with settings, and what was damaged."""
TEXTS: Final = "leadline.texts"
"""Metadata of a safetensors segment: the JSON list of the keys whose elements are code points of texts (UTF-32)."""
DOCTOR: Final = "doctor.json"
"""The task of a doctor run."""
DOCTOR_REPORTS: Final = "doctor"
CHECK: Final = "check.json"
"""The task of a run of ``leadline check``."""
CHECKS: Final = "checks"
"""The results of the checks of a training, one document for each worker."""
TERMS: Final = "terms"
"""Which node's agent writes the run's status and runs its judge, by the number of its term."""
RESUME_LOCK: Final = "resume.lock"
"""Lock held by the process that resumes the run."""
UPLOAD: Final = "upload.json"
"""Where a run is uploaded to, and how far that is; written on the machine of the job only."""
DISK: Final = "disk.json"
"""The bound of the run directory, and what was removed because of it; absent in a run that has none."""
INCARNATIONS: Final = "incarnations.json"
"""The starts of a resumed run, and where the last one continues; absent in a run that was started once."""
OTHERS: Final = ".others.json"
"""The workers and nodes of other run directories, in one whose nodes share only an object store."""
PROPOSED_TERM: Final = ".term.json"
"""The term that the agent wants to begin, in such a run directory; the upload asks the store for it."""
MIRROR: Final = ".mirror.json"
"""The objects that a mirror consists of; only in a mirror."""
HOLES: Final = ".holes"
"""Suffix of the list of what is here of a segment of raw tensors, one JSON line each; only in a mirror."""
FOLDERS: Final = (CONTROL, ACKS, WORKERS, NODES, TENSORS, SERIES, TIMELINE, SYSTEM, RULES)


def is_file_name(name: str) -> bool:
    """Return whether a name can be that of a file in a folder."""
    return "/" not in name and "\0" not in name and name not in ("", ".", "..")


def file_name(name: str) -> str:
    """Return a name that becomes a part of a path.

    The names of rules, workers and requests are read from documents, which may come from anywhere.

    Raises:
        DamagedRunError: It is none, and might lead out of the run.
    """
    if not is_file_name(name):
        raise DamagedRunError(f"{name[:80]!r} cannot be the name of a file in a run; it must have no '/'")
    return name


def worker_document(worker: str) -> str:
    """The document of a worker."""
    return f"{WORKERS}/{file_name(worker)}.json"


def worker_exit(worker: str) -> str:
    """The exit status of a worker: its last byte; empty while the process runs, and for good if it was killed."""
    return f"{WORKERS}/{file_name(worker)}.exit"


def worker_claim(worker: str, incarnation: int) -> str:
    """The file that the one process creates which continues a worker's streams in an incarnation: its node's name."""
    return f"{WORKERS}/{file_name(worker)}.{incarnation}"


def node_document(node: str) -> str:
    """The document of a node, written by its agent."""
    return f"{NODES}/{file_name(node)}.json"


def term(number: int) -> str:
    """The term of a primary agent."""
    return f"{TERMS}/{number:06d}.json"


def node_lock(node: str) -> str:
    """The lock held by the agent of a node."""
    return f"{NODES}/{file_name(node)}.lock"


def node_sign(node: str) -> str:
    """A file that the agent of a node touches every few seconds: the node is alive."""
    return f"{NODES}/{file_name(node)}.alive"


def node_processes(node: str) -> str:
    """The processes of a node that joined the run by themselves, one JSON line each."""
    return f"{NODES}/{file_name(node)}.jsonl"


def report_page(product: str) -> str:
    """A report as an HTML page: ``reports/profiling.html``."""
    return f"{REPORTS}/{file_name(product)}.html"


def report_notebook(product: str) -> str:
    """The notebook that recreates a report."""
    return f"{REPORTS}/{file_name(product)}.ipynb"


def doctor_report(process: str) -> str:
    """The results of one process of a doctor run."""
    return f"{DOCTOR_REPORTS}/{file_name(process)}.json"


def check_report(worker: str) -> str:
    """The results of the checks of a worker."""
    return f"{CHECKS}/{file_name(worker)}.json"


def segment(part: str, stream: str, ordinal: int, *, is_compressed: bool = True) -> str:
    """An Arrow segment of a stream: ``series/<worker>/000001.arrow.gz``."""
    return f"{part}/{file_name(stream)}/{ordinal:06d}{COMPRESSED if is_compressed else '.arrow'}"


def tensor_segment(worker: str, ordinal: int) -> str:
    """A safetensors segment; the suffix ``.part`` is added while it is written."""
    return f"{TENSORS}/{file_name(worker)}/{ordinal:06d}.safetensors"


def array_pack(worker: str, ordinal: int) -> str:
    """A file to which the array statistics of a worker are appended; numbered with its safetensors segments."""
    return f"{TENSORS}/{file_name(worker)}/{ordinal:06d}{PACK}"


def tensor_key(mode: str, step: int, name: str) -> str:
    """The key of a tensor within a safetensors segment; ``step`` is the global step."""
    return f"{mode}/{step}/{name}"


def parse_tensor_key(key: str) -> tuple[str, int, str]:
    """Return mode, global step and name from a ``tensor_key``."""
    mode, step, name = key.split("/", 2)
    return mode, int(step), valid_name(name)


def valid_name(name: str) -> str:
    """Return a name that can be encoded: a lone surrogate is written out, as ``\\ud800``."""
    return name if name.isascii() else name.encode(errors="backslashreplace").decode()


def vector_name(tensor: str, statistic: str) -> str:
    """The name under which a vector statistic of a tensor is stored."""
    return f"{tensor}@{statistic}"


@lru_cache(maxsize=1 << 14)  # called for every array at every step
def parse_vector_name(name: str) -> tuple[str, str] | None:
    """Return tensor and statistic from a ``vector_name``; None if it is the name of a tensor."""
    tensor, at, statistic = name.rpartition("@")
    if not at:
        return None
    try:
        return (tensor, statistic) if is_vector(statistic) else None
    except UnknownNameError:
        return None


def request(identifier: str) -> str:
    """A control request."""
    return f"{CONTROL}/{file_name(identifier)}.json"


def acknowledgement(identifier: str, worker: str) -> str:
    """A worker's acknowledgement of a control request."""
    return f"{ACKS}/{file_name(identifier)}.{file_name(worker)}.json"


def profile(worker: str, window: str) -> str:
    """The folder of a profile window."""
    return f"{PROFILES}/{file_name(worker)}/{file_name(window)}"


def horovod(worker: str) -> str:
    """The folder of Horovod's timelines."""
    return f"{PROFILES}/{file_name(worker)}/horovod"


def horovod_copy(ordinal: int) -> str:
    """A copy of Horovod's timeline file, in that folder."""
    return f"timeline-{ordinal:03d}.json"


def horovod_clock(ordinal: int) -> str:
    """The file that maps a Horovod timeline to wall-clock time."""
    return f"clock-{ordinal:03d}.json"


def command_output(identifier: str) -> str:
    """The output of a command that a request ran."""
    return f"{COMMANDS}/{file_name(identifier)}.log"


def module_annotation(module: str) -> str:
    """The trace annotation of a module, by its dotted name."""
    return f"{MODULE_ANNOTATION}{module}"


def loading_marker(process: int) -> str:
    """A file in the profiles folder while data loaders are profiled; the loader workers write into it."""
    return f".loading-{process}"


def out_of_memory(worker: str, ordinal: int) -> str:
    """The memory usage at an out-of-memory error."""
    return f"{PROFILES}/{file_name(worker)}/out-of-memory-{ordinal}.json"


def callstacks(ordinal: int) -> str:
    """A pyinstrument session, in a window's folder."""
    return f"callstacks-{ordinal:03d}.json"


def rule_status(alias: str) -> str:
    """The status of a rule."""
    return f"{RULES}/{file_name(alias)}/status.json"


def rule_findings(alias: str) -> str:
    """A rule's episodes, one JSON line for each event."""
    return f"{RULES}/{file_name(alias)}/findings.jsonl"


def compact_part(part: str, stream: str, first: int, last: int) -> str:
    """The file that compaction passes ``first`` to ``last`` derived from a stream."""
    return f"{COMPACT}/{part}/{file_name(stream)}/{first:06d}-{last:06d}.parquet"


def parse_compact_part(name: str) -> tuple[int, int] | None:
    """Return first and last pass from the name of a ``compact_part``; None if it is not one."""
    first, dash, last = name.removesuffix(".parquet").partition("-")
    is_part = name.endswith(".parquet") and dash and first.isdecimal() and last.isdecimal()
    return (int(first), int(last)) if is_part and int(first) <= int(last) else None


def is_run(path: str) -> bool:
    """Return whether a folder is a run directory."""
    return os.path.isfile(os.path.join(path, MANIFEST))
