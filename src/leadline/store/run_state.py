"""The state of a run: its creation, and the documents that its processes wrote, as records."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leadline.errors import STOPPED, NewerRunError, RunExistsError, RunNotWritableError
from leadline.records.documents import (
    ManifestDocument,
    NodeDocument,
    RuleDocument,
    RuleSummary,
    RunStatus,
    SummarizedRule,
    Transition,
    WorkerDocument,
)
from leadline.records.names import JOB_STATUSES, RULE_STATUSES
from leadline.records.profile_window import is_window_document
from leadline.records.request import Stop
from leadline.records.version import __version__
from leadline.store import layout
from leadline.store.control import read_requests
from leadline.store.documents import make_folder, read_document, read_lines, read_with_retries, write_document
from leadline.store.run_files import IrregularFileError, read_regular, subfolders

if TYPE_CHECKING:
    from leadline.records.manifest import Manifest


def create_run(path: str, manifest: Manifest, *, status: str = "Starting") -> None:
    """Create a run directory with its manifest and initial status.

    Raises:
        RunExistsError: The path already exists.
        RunNotWritableError: The run cannot be written at that path.
    """
    try:
        make_folder(os.path.dirname(path))
        os.mkdir(path, 0o700)
        for folder in layout.FOLDERS:
            make_folder(os.path.join(path, folder))
        write_document(os.path.join(path, layout.MANIFEST), manifest.to_dict())
        write_status(path, status, manifest.started_ns)
    except OSError as error:
        if isinstance(error, FileExistsError) and os.path.exists(path):
            raise RunExistsError(f"a run already exists at {path}; choose another name or delete it") from None
        raise RunNotWritableError(
            f"the run cannot be written at {path}: {error.strerror}; choose another folder with --out"
        ) from None


def join_run(path: str, manifest: Manifest) -> bool:
    """Create a run that other processes may create at the same time; the first manifest wins.

    Returns:
        Whether this process has created it.
    Raises:
        RunNotWritableError: The run cannot be written at that path.
    """
    draft = os.path.join(path, f"{layout.MANIFEST}.{manifest.started_ns}.{os.getpid()}.draft")
    try:
        for folder in layout.FOLDERS:
            make_folder(os.path.join(path, folder))
        write_document(draft, manifest.to_dict())
        try:
            os.link(draft, os.path.join(path, layout.MANIFEST))  # fails if a manifest exists, from any node
            write_status(path, "Starting", manifest.started_ns)
        finally:
            os.unlink(draft)
    except FileExistsError:
        return False
    except OSError as error:
        raise RunNotWritableError(f"the run cannot be written at {path}: {error.strerror}") from None
    return True


def write_status(path: str, status: str, time_ns: int, *, ended_ns: int | None = None) -> None:
    """Write the status of a run without an agent."""
    document = RunStatus(status, (Transition(status, time_ns),), job_pid=os.getpid(), ended_ns=ended_ns)
    write_document(os.path.join(path, layout.STATUS), document)


def check_format(manifest: Any, place: str) -> None:
    """Raise an error if a run was written in a format that this version does not know.

    Args:
        manifest: The decoded manifest.
        place: The path or URI of the run.
    Raises:
        NewerRunError: A later version of Leadline has written it.
    """
    number = manifest.get("format") if isinstance(manifest, dict) else None
    if isinstance(number, int) and number > layout.FORMAT:
        raise NewerRunError(
            f"{place} was written by Leadline {manifest.get('leadline')} in format {number}, and this version, "
            f"{__version__}, knows format {layout.FORMAT}; update with: pip install --upgrade leadline"
        )


def read_manifest_document(run: str) -> ManifestDocument | None:
    """Read a few fields of the manifest; None if it is missing or no object."""
    document = read_document(os.path.join(run, layout.MANIFEST))
    return ManifestDocument.from_dict(document) if isinstance(document, dict) else None


def read_status(run: str) -> RunStatus:
    """Read the job's status; the default if there is no document yet.

    A damaged document is replaced by what the documents of the nodes tell: which agent to ask. Where that has ended,
    ``reader.liveness`` derives the status from the workers.
    """
    document = read_document(os.path.join(run, layout.STATUS))
    if _is_status(document):
        return RunStatus.from_dict(document)
    nodes = read_nodes(run)
    return RunStatus("InProgress", agent_pid=nodes[0].agent_pid, node=nodes[0].node) if nodes else RunStatus()


def read_workers(run: str) -> dict[str, WorkerDocument]:
    """Read the documents of all workers, ordered by name."""
    documents = {name: read_with_retries(path) for name, path in document_paths(run, layout.WORKERS).items()}
    return {name: WorkerDocument.from_dict(document) for name, document in documents.items() if document is not None}


@dataclass(frozen=True, slots=True)
class RecordedEnd:
    """The end of a job as its workers recorded it."""

    status: str | None
    """None: a worker did not record its end."""
    exit_status: int | None
    """That of the command; None: unknown."""
    is_pending: bool
    """Whether a worker has ended its capture, but not its process."""


def recorded_end(run: str, workers: Mapping[str, WorkerDocument], job_pid: int | None) -> RecordedEnd:
    """Return the end of a job from what its workers recorded: where no agent has waited for its exit status.

    Args:
        job_pid: The pid of the command; None: unknown, then a single worker is taken for it.
    """
    exits = {worker: read_exit_status(run, worker) for worker in workers}
    own = [code for worker, code in exits.items() if job_pid in (workers[worker].pid, None)]
    exit_status = own[0] if len(own) == 1 else None
    codes = {code for code in exits.values() if code}
    status: str | None = "Completed"
    if any(document.state != "ended" for document in workers.values()):
        status = None
    elif codes == {128 + signal.SIGINT}:
        status = "Interrupted"
    elif codes:
        status = "Stopped" if STOPPED in codes and _was_stopped(run) else "Failed"
    is_pending = any(
        code is None and os.path.exists(os.path.join(run, layout.worker_exit(worker))) for worker, code in exits.items()
    )
    return RecordedEnd(status, exit_status, is_pending)


def _was_stopped(run: str) -> bool:
    return any(isinstance(request, Stop) for request in read_requests(run))


def read_exit_status(run: str, worker: str) -> int | None:
    """Return the exit status that a worker recorded; None: it runs, was killed, or could not record one."""
    try:
        codes = read_regular(os.path.join(run, layout.worker_exit(worker)))
    except (FileNotFoundError, NotADirectoryError, IrregularFileError):
        return None
    return codes[-1] if codes else None


def read_nodes(run: str) -> list[NodeDocument]:
    """Read the documents of all nodes, ordered by name."""
    documents = map(read_with_retries, document_paths(run, layout.NODES).values())
    return [NodeDocument.from_dict(document) for document in documents if document is not None]


def read_rule_summary(run: str) -> RuleSummary | None:
    """Read the rule summary; None if the judge has not written one yet.

    A damaged summary is put together again from the documents of the rules and their findings.
    """
    path = os.path.join(run, layout.RULE_SUMMARY)
    document = read_document(path)
    if _is_summary(document):
        return RuleSummary.from_dict(document)
    if not os.path.exists(path):
        return None
    documents = {alias: read_document(os.path.join(run, layout.rule_status(alias))) for alias in _rule_names(run)}
    rules = tuple(_summarized(run, RuleDocument.from_dict(rule)) for rule in documents.values() if _is_rule(rule))
    if not rules:
        return None
    is_complete = len(rules) == len(documents) and all(rule.status != "InProgress" for rule in rules)
    return RuleSummary(complete=is_complete, rules=tuple(sorted(rules, key=lambda rule: not rule.findings)))


def _summarized(run: str, rule: RuleDocument) -> SummarizedRule:
    has_name = layout.is_file_name(rule.name)
    findings = read_lines(os.path.join(run, layout.rule_findings(rule.name))) if has_name else []
    first = next((line for line in findings if isinstance(line, dict)), {}) if rule.findings else {}
    return SummarizedRule.from_dict({**first, **rule.fields()})


def read_rule(run: str, alias: str) -> RuleDocument | None:
    """Read the state of one rule; None if it has not been evaluated yet.

    A damaged document is replaced by what the rule summary tells.
    """
    if not layout.is_file_name(alias):
        return None
    path = os.path.join(run, layout.rule_status(alias))
    document = read_document(path)
    if _is_rule(document):
        return RuleDocument.from_dict(document)
    summary = read_document(os.path.join(run, layout.RULE_SUMMARY)) if os.path.exists(path) else None
    rules = RuleSummary.from_dict(summary).rules if _is_summary(summary) else ()
    return next((RuleDocument.from_dict(rule.fields()) for rule in rules if rule.name == alias), None)


def damaged_documents(run: str) -> list[str]:
    """Return one line for each document of a run that cannot be read as one."""
    checks = {layout.STATUS: _is_status, layout.RULE_SUMMARY: _is_summary}
    checks |= {layout.rule_status(alias): _is_rule for alias in _rule_names(run)}
    checks |= {layout.worker_document(name): _is_worker for name in document_paths(run, layout.WORKERS)}
    checks |= {f"{window}/{layout.WINDOW}": is_window_document for window in _windows(run)}
    checks |= {layout.node_document(name): _is_node for name in document_paths(run, layout.NODES)}
    paths = {name: os.path.join(run, name) for name in checks}
    return [
        f"{name}: not a readable document"
        for name, path in paths.items()
        if os.path.lexists(path) and not checks[name](read_with_retries(path))
    ]


def damage_of_trial(run: str) -> list[str]:
    """Return one line for each part of its trial that an imported run lacks, because it could not be read."""
    path = os.path.join(run, layout.TRIAL)
    if not os.path.exists(path):
        return []
    document = read_with_retries(path)
    if not isinstance(document, dict):
        return [f"{layout.TRIAL}: not a readable document"]
    return [str(line) for line in document.get("damage") or ()]


def _rule_names(run: str) -> list[str]:
    return subfolders(os.path.join(run, layout.RULES))


def _windows(run: str) -> list[str]:
    """Return the folders of the profile windows of a run."""
    workers = subfolders(os.path.join(run, layout.PROFILES))
    found = [
        (worker, window) for worker in workers for window in subfolders(os.path.join(run, layout.PROFILES, worker))
    ]
    return [layout.profile(*window) for window in found]


def _is_status(document: Any) -> bool:
    return isinstance(document, dict) and document.get("status") in JOB_STATUSES


def _is_rule(document: Any) -> bool:
    is_named = isinstance(document, dict) and isinstance(document.get("name"), str)
    return is_named and document.get("status") in RULE_STATUSES


def _is_summary(document: Any) -> bool:
    rules = document.get("rules") if isinstance(document, dict) else None
    return isinstance(rules, list) and all(map(_is_rule, rules))


def _is_worker(document: Any) -> bool:
    return isinstance(document, dict) and isinstance(document.get("worker"), str)


def _is_node(document: Any) -> bool:
    return isinstance(document, dict) and isinstance(document.get("node"), str)


def run_bytes(run: str) -> int:
    """Return the size of all files of a run directory, in bytes."""
    return sum(_size(os.path.join(folder, name)) for folder, _, names in os.walk(run) for name in names)


def recorded_bytes(run: str) -> int:
    """Return the size of what was recorded of a run, in bytes: without reports, which are made later."""
    reports = os.path.join(run, layout.REPORTS)
    return run_bytes(run) - run_bytes(reports) - _size(os.path.join(run, layout.RESERVE))


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:  # it was removed meanwhile
        return 0


def document_paths(run: str, folder: str) -> dict[str, str]:
    """Return the paths of the documents in a folder of a run, by name."""
    try:
        names = sorted(name for name in os.listdir(os.path.join(run, folder)) if name.endswith(".json"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {name.removesuffix(".json"): os.path.join(run, folder, name) for name in names}
