"""Run summaries for lists, read from a few fields of the run's documents."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Final, TypeVar

import msgspec

from leadline.config.secrets import scrub_command
from leadline.reader import liveness
from leadline.records.documents import (
    DisabledCapture,
    RuleSummary,
    RunStatus,
    SavedCheckpoint,
    SummarizedRule,
    TimeSummary,
    WorkerDocument,
)
from leadline.records.json_object import JsonObject
from leadline.records.names import JOB_ENDED, JOB_STATUSES
from leadline.records.outcome import Level, RunOutcome, run_outcome
from leadline.records.totals import step_share, steps_by_mode
from leadline.store import layout
from leadline.store.run_files import read_regular
from leadline.store.run_state import document_paths, read_rule_summary

DAMAGED: Final = "Damaged"
"""The status of a run whose manifest cannot be read."""
_UNREADABLE: Final = RunOutcome("Damaged: its manifest cannot be read")


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Summary of a run that is read without its data."""

    name: str
    path: str
    status: str
    """The job's status; if its agent is gone, the status that its workers' documents imply; or ``Damaged``."""
    started_ns: int
    ended_ns: int | None = None
    preset: str = ""
    command: tuple[str, ...] = ()
    steps: dict[str, int] = field(default_factory=dict)
    """The number of steps by mode, from the worker with the most steps."""
    loss: float | str | None = None
    """The latest value of the first loss of a worker; NaN and infinity by name."""
    hyperparameters: dict[str, object] = field(default_factory=dict)
    """Of a booster, and the batch size, as a worker document has them."""
    cost_ratio: float | None = None
    """The overhead as a share of the step time; None if there was no step."""
    rules: tuple[SummarizedRule, ...] = ()
    """In the order of the judge; empty until it has written its first summary."""
    outcome: RunOutcome = _UNREADABLE
    damage: tuple[str, ...] = ()
    """The documents that cannot be read; what they said is derived from others, where possible."""

    @property
    def train_steps(self) -> int:
        """The number of train steps; of a run that never trains, the number of all steps."""
        return self.steps.get("train") or sum(self.steps.values())

    @property
    def level(self) -> Level:
        """The level of the outcome; ``fatal`` as well if the last loss is not finite, whatever the rules say."""
        is_finite = self.loss is None or math.isfinite(float(self.loss))
        return self.outcome.level if is_finite else "fatal"


class RunStart(msgspec.Struct, frozen=True):
    """The fields of a manifest that a list shows."""

    name: str
    started_ns: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
    leadline: str
    command: tuple[str, ...]
    preset: str = "standard"


class _Status(msgspec.Struct):
    status: str = ""
    stopped_by: str | None = None
    exit_status: int | None = None
    ended_ns: int | None = None
    error: str = ""


class _EndedCapture(msgspec.Struct):
    step: int | None = None
    error: str = "unknown error"


class _Checkpoint(msgspec.Struct):
    step: int = -1
    path: str = ""


class _Worker(msgspec.Struct):
    steps: dict[str, int] | None = None
    losses: dict[str, float | str | None] | None = None
    hyperparameters: JsonObject | None = None
    facts: JsonObject | None = None
    own_ns: int | None = None
    loop_ns: int | None = None
    error: str | None = None
    off: _EndedCapture | None = None
    checkpoints: tuple[_Checkpoint, ...] = ()


class _Rules(msgspec.Struct):
    rules: tuple[SummarizedRule, ...]
    complete: bool = False
    time: TimeSummary | None = None
    remarks: tuple[str, ...] = ()
    possible_causes: tuple[str, ...] = ()
    best_evaluation: str = ""


T = TypeVar("T")
_START: Final = msgspec.json.Decoder(RunStart)
_STATUS: Final = msgspec.json.Decoder(_Status)
_WORKER: Final = msgspec.json.Decoder(_Worker)
_RULES: Final = msgspec.json.Decoder(_Rules)
_ATTEMPTS: Final = 5


def summarize(path: str) -> RunSummary | None:
    """Summarize a run; None if there is no run."""
    manifest = f"{path}/{layout.MANIFEST}"
    start = _decode(_START, manifest)
    if start is None:
        changed_ns = _changed_ns(manifest)
        return None if changed_ns is None else RunSummary(os.path.basename(path), path, DAMAGED, changed_ns)
    status = _decode(_STATUS, f"{path}/{layout.STATUS}") or _Status()
    workers, unread = _read_workers(path)
    rules = _decode(_RULES, f"{path}/{layout.RULE_SUMMARY}")
    if rules is None and (summary := read_rule_summary(path)) is not None:
        rules = _Rules(
            summary.rules,
            summary.complete,
            summary.time,
            summary.remarks,
            summary.possible_causes,
            summary.best_evaluation,
        )
        unread.append(layout.RULE_SUMMARY)
    rules = rules or _Rules(())
    if status.status not in JOB_STATUSES and os.path.exists(f"{path}/{layout.STATUS}"):
        unread.append(layout.STATUS)
    state = RunStatus(
        status=status.status,
        ended_ns=status.ended_ns,
        stopped_by=status.stopped_by,
        exit_status=status.exit_status,
        error=status.error,
    )
    if state.status not in JOB_ENDED:
        state = liveness.effective_document(path)
    judged = RuleSummary(
        complete=rules.complete,
        time=rules.time,
        rules=rules.rules,
        remarks=rules.remarks,
        possible_causes=rules.possible_causes,
        best_evaluation=rules.best_evaluation,
    )
    return RunSummary(
        name=start.name,
        path=path,
        status=state.status,
        started_ns=start.started_ns,
        ended_ns=state.ended_ns,
        preset=start.preset,
        command=scrub_command(start.command),
        steps=steps_by_mode(workers),
        loss=next((loss for worker in workers for loss in worker.losses.values()), None),
        hyperparameters=reported_hyperparameters(workers),
        cost_ratio=step_share(workers),
        rules=rules.rules,
        outcome=run_outcome(state, judged, workers),
        damage=tuple(unread),
    )


def reported_hyperparameters(workers: Iterable[WorkerDocument]) -> dict[str, object]:
    """Return the hyperparameters of the first worker that has some; containers are left out."""
    for worker in workers:
        batch_size = {"batch_size": worker.facts["batch_size"]} if worker.facts.get("batch_size") else {}
        given = {**worker.hyperparameters, **batch_size}
        if given:
            return {name: value for name, value in given.items() if isinstance(value, (int, float, str))}
    return {}


def read_start(path: str) -> RunStart | None:
    """Read the fields of a manifest that a list shows; None if there is no run or its manifest cannot be read."""
    return _decode(_START, f"{path}/{layout.MANIFEST}")


def _decode(decoder: msgspec.json.Decoder[T], path: str) -> T | None:
    """Decode some fields of a document; None if it is missing, incomplete or something else."""
    data = _contents(path)
    try:
        return decoder.decode(data) if data is not None else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _read_workers(path: str) -> tuple[list[WorkerDocument], list[str]]:
    """Read the fields of the worker documents that a list shows, ordered by worker, and the names of damaged ones."""
    paths = document_paths(path, layout.WORKERS)
    documents = {worker: _read_worker(document) for worker, document in paths.items()}
    workers = [
        WorkerDocument(
            steps=document.steps or {},
            losses=document.losses or {},
            hyperparameters=document.hyperparameters or {},
            facts=document.facts or {},
            own_ns=document.own_ns or 0,
            loop_ns=document.loop_ns or 0,
            error=document.error or "",
            off=DisabledCapture(document.off.step, document.off.error) if document.off is not None else None,
            checkpoints=tuple(SavedCheckpoint(saved.step, saved.path) for saved in document.checkpoints),
        )
        for document in documents.values()
        if document is not None
    ]
    return workers, [layout.worker_document(worker) for worker, document in documents.items() if document is None]


def _read_worker(path: str) -> _Worker | None:
    """Read a worker document; a document that is being rewritten in place is retried."""
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(0.001)
        document = _decode(_WORKER, path)
        if document is not None:
            return document
    return None


def _contents(path: str) -> bytes | None:
    """Read a file; None if it cannot be read, or is none that Leadline wrote."""
    try:
        return read_regular(path)
    except OSError:
        return None


def _changed_ns(path: str) -> int | None:
    """Return when a regular file was changed; None if there is none."""
    try:
        return os.stat(path).st_mtime_ns if os.path.isfile(path) else None
    except OSError:
        return None
