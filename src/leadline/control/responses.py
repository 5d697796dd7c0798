"""Responses to control requests: accepted, refused or pending, by worker, agent and judge."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from leadline.judge.rule_changes import JUDGE
from leadline.reader import liveness
from leadline.reader.run import Run
from leadline.records import describe
from leadline.records.names import JOB_ENDED
from leadline.records.request import (
    Acknowledgement,
    AddRules,
    ChangeCapture,
    ControlRequest,
    Profile,
    RemoveRules,
    SetInterval,
    Stop,
    UnreadableRequest,
)
from leadline.remote import mirror
from leadline.store.control import read_acknowledgements, read_requests
from leadline.store.run_state import read_nodes, read_workers

_SHOWN: Final = (Stop, SetInterval, Profile, AddRules, RemoveRules, ChangeCapture, UnreadableRequest)
"""The requests of users, and those of rules that affect the training."""
_POLL_SECONDS: Final = 0.05
_STORE_SECONDS: Final = 15.0
"""How much longer an answer may take by way of an object store: each way waits for the next round of the upload."""

State = Literal["waiting", "taken", "refused", "missed"]


@dataclass(frozen=True, slots=True)
class RequestStatus:
    """A request, its state and the answers to it."""

    request: ControlRequest
    what: str
    """A short description: ``sample the machine every 100 ms``."""
    state: State
    """``missed``: the job ended before any process accepted it."""
    answers: tuple[Acknowledgement, ...]
    waits_for: int
    """The number of processes that have not answered yet."""


def request_statuses(run: Run, *, limit: int = 50) -> list[RequestStatus]:
    """Return the requests of users and rules to a run, the latest first.

    Args:
        limit: The maximum number of requests.
    """
    answers = read_acknowledgements(run.uri)
    requests = [request for request in read_requests(run.uri) if isinstance(request, _SHOWN)][-limit:]
    processes = _Processes.of(run)
    return [_status(run, request, answers.get(request.id, ()), processes) for request in reversed(requests)]


def interval_ms(run: Run) -> int:
    """Return the current sampling interval of system metrics: of the manifest, or as last set."""
    answers, interval = read_acknowledgements(run.uri), run.manifest.interval_ms
    for request in read_requests(run.uri):
        if isinstance(request, SetInterval) and any(map(_is_accepted, answers.get(request.id, ()))):
            interval = request.interval_ms
    return interval


def await_answers(
    run: Run, requests: Iterable[ControlRequest], patience_seconds: float
) -> dict[str, list[Acknowledgement]]:
    """Wait until all expected answers to requests have arrived, or until a timeout; return the answers by id.

    Args:
        patience_seconds: The timeout; for a run in an object store the time of both ways is added.
    """
    requests = list(requests)
    patience_seconds += _STORE_SECONDS if mirror.uri_of(run.path) else 0.0
    answers: dict[str, list[Acknowledgement]] = {request.id: [] for request in requests}
    end = time.monotonic() + patience_seconds
    while time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
        mirror.refresh(run.path)
        received, processes = read_acknowledgements(run.uri), _Processes.of(run)
        answers = {request.id: received.get(request.id, []) for request in requests}
        if all(answers[request.id] and not processes.missing(request, answers[request.id]) for request in requests):
            break
    return answers


@dataclass(frozen=True, slots=True)
class _Processes:
    """The processes of a run that answer requests."""

    workers: frozenset[str]
    """The workers that still make steps."""
    nodes: int

    @classmethod
    def of(cls, run: Run) -> _Processes:
        workers = read_workers(run.uri)
        running = set(workers) - liveness.finished_workers(run.uri, workers)
        return cls(frozenset(running), max(1, len(read_nodes(run.uri))))

    def missing(self, request: ControlRequest, given: Sequence[Acknowledgement]) -> int:
        """Return the number of processes that have yet to answer a request."""
        answered = {answer.worker for answer in given}
        if isinstance(request, SetInterval):
            return max(0, self.nodes - len(answered))
        return len(self.workers - answered) + (isinstance(request, AddRules | RemoveRules) and JUDGE not in answered)


def _status(
    run: Run, request: ControlRequest, given: Sequence[Acknowledgement], processes: _Processes
) -> RequestStatus:
    missing = processes.missing(request, given) if run.status not in JOB_ENDED else 0
    return RequestStatus(request, describe.request(request), _state(run, request, given), tuple(given), missing)


def _state(run: Run, request: ControlRequest, given: Sequence[Acknowledgement]) -> State:
    if given:
        return "taken" if any(map(_is_accepted, given)) else "refused"
    if isinstance(request, Stop) and run.status in ("Stopping", "Stopped"):
        return "taken"  # a job that makes no steps is ended by signals, and cannot answer
    return "missed" if run.status in JOB_ENDED else "waiting"


def _is_accepted(acknowledgement: Acknowledgement) -> bool:
    return acknowledgement.answer.is_accepted
