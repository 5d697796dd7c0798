"""Responses to control requests: accepted, refused or pending, by worker, agent and judge."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from leadline.judge.added_rules import JUDGE
from leadline.reader import liveness
from leadline.reader.run import Run
from leadline.records.names import JOB_ENDED
from leadline.records.profile_window import ProfileWindow
from leadline.records.request import FAILED, REFUSED, RULE, Acknowledgement, Request
from leadline.store.control import read_acknowledgements, read_requests

AGENT: Final = "agent-"
"""Prefix of the names of agents in acknowledgements."""
TAKEN: Final = "taken"
"""Beginning of the outcome of an accepted request."""
_POLL_SECONDS: Final = 0.05

State = Literal["waiting", "taken", "refused", "missed"]


@dataclass(frozen=True, slots=True)
class WorkerResponse:
    """The answer of one worker, agent or judge."""

    who: str
    step: int | None
    """The step at which the request was applied; None for a process without steps."""
    outcome: str
    time_ns: int


@dataclass(frozen=True, slots=True)
class RequestStatus:
    """A request, its state and the answers to it."""

    id: str
    kind: str
    what: str
    """A short description: ``sample the machine every 100 ms``."""
    by: str
    asked_ns: int
    state: State
    """``missed``: the job ended before any process accepted it."""
    answers: tuple[WorkerResponse, ...]
    waits_for: int
    """The number of processes that have not answered yet."""


def request_statuses(run: Run, *, limit: int = 50) -> list[RequestStatus]:
    """Return the requests of users and rules to a run, the latest first.

    Args:
        limit: The maximum number of requests.
    """
    answers: dict[str, list[Acknowledgement]] = {}
    for answer in read_acknowledgements(run.uri):
        answers.setdefault(answer.id, []).append(answer)
    requests = [request for request in read_requests(run.uri) if request.kind in _DESCRIBERS][-limit:]
    workers = _running(run)
    nodes = max(1, len(liveness.read_nodes(run.uri)))
    return [_status(run, request, answers.get(request.id, []), workers, nodes) for request in reversed(requests)]


def interval_ms(run: Run) -> int:
    """Return the current sampling interval of system metrics: of the manifest, or as last set."""
    accepted = {answer.id for answer in read_acknowledgements(run.uri) if answer.outcome == TAKEN}
    changes = [
        request.parameters for request in read_requests(run.uri) if request.kind == "set" and request.id in accepted
    ]
    intervals = [int(parameters["interval_ms"]) for parameters in changes if "interval_ms" in parameters]
    return intervals[-1] if intervals else run.manifest.interval_ms


def await_answers(run: Run, requests: Iterable[Request], patience_seconds: float) -> dict[str, list[Acknowledgement]]:
    """Wait until all expected answers to requests have arrived, or until a timeout; return the answers by id."""
    kinds = {request.id: request.kind for request in requests}
    answers: dict[str, list[Acknowledgement]] = {identifier: [] for identifier in kinds}
    end = time.monotonic() + patience_seconds
    while time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
        received = read_acknowledgements(run.uri)
        answers = {identifier: [answer for answer in received if answer.id == identifier] for identifier in kinds}
        workers, nodes = _running(run), max(1, len(liveness.read_nodes(run.uri)))
        if all(
            given and not _missing(kinds[identifier], given, workers, nodes) for identifier, given in answers.items()
        ):
            break
    return answers


def describe(request: Request) -> str:
    """Describe a request in a few words."""
    describer = _DESCRIBERS.get(request.kind)
    return describer(request) if describer else request.kind


def format_answer(answer: Acknowledgement) -> str:
    """``accepted by host vm``, ``refused by rank0-16630: the run has ended``."""
    who = f"host {answer.worker.removeprefix(AGENT)}" if answer.worker.startswith(AGENT) else answer.worker
    for prefix, words in ((REFUSED, "refused by"), (FAILED, "failed on")):
        if answer.outcome.startswith(prefix):
            return f"{words} {who}: {answer.outcome.removeprefix(prefix)}"
    detail = answer.outcome.removeprefix(TAKEN).removeprefix(":").strip().replace(f"; {TAKEN}: ", "; ")
    return f"accepted by {who}{f': {detail}' if detail else ''}"


def is_accepted(answer: Acknowledgement) -> bool:
    """Whether a request was accepted."""
    return answer.outcome.startswith(TAKEN)


def is_refused(answer: Acknowledgement) -> bool:
    """Whether a request was refused."""
    return answer.outcome.startswith(REFUSED)


def _status(
    run: Run, request: Request, given: Sequence[Acknowledgement], workers: set[str], nodes: int
) -> RequestStatus:
    answers = tuple(
        WorkerResponse(
            answer.worker.removeprefix(AGENT), answer.step if answer.step >= 0 else None, answer.outcome, answer.time_ns
        )
        for answer in given
    )
    missing = _missing(request.kind, given, workers, nodes)
    return RequestStatus(
        request.id,
        request.kind,
        describe(request),
        request.by,
        request.time_ns,
        _state(run, request, given),
        answers,
        missing if run.status not in JOB_ENDED else 0,
    )


def _state(run: Run, request: Request, given: Sequence[Acknowledgement]) -> State:
    if any(not answer.outcome.startswith((REFUSED, FAILED)) for answer in given):
        return "taken"
    if given:
        return "refused"
    if request.kind == "stop" and run.status in ("Stopping", "Stopped"):
        return "taken"  # a job that makes no steps is ended by signals, and cannot answer
    return "missed" if run.status in JOB_ENDED else "waiting"


def _missing(kind: str, given: Sequence[Acknowledgement], workers: set[str], nodes: int) -> int:
    """The number of processes that have yet to answer a request of a kind."""
    answered = {answer.worker for answer in given}
    if kind == "set":
        return max(0, nodes - len(answered))
    if kind == RULE:
        return int(JUDGE not in answered) + len(workers - answered)
    return len(workers - answered)


def _running(run: Run) -> set[str]:
    """The workers that still make steps."""
    workers = liveness.read_workers(run.uri)
    return set(workers) - liveness.finished_workers(run.uri, workers)


def _set(request: Request) -> str:
    return f"sample the machine every {format_interval(int(request.parameters.get('interval_ms', 0)))}"


def format_interval(milliseconds: int) -> str:
    """``100 ms``, ``5 s``, ``1 min``."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    return f"{seconds:g} s" if seconds < 60 else f"{seconds / 60:g} min"


def _profile(request: Request) -> str:
    if request.parameters.get("off"):
        return "end profiling"
    windows: list[dict[str, Any]] = request.parameters.get("windows", [])
    return "profile: " + "; ".join(ProfileWindow.from_dict(window).describe() for window in windows)


def _rule(request: Request) -> str:
    aliases = ", ".join(str(rule.get("alias")) for rule in request.parameters.get("rules", ()))
    return f"add rule {aliases}"


def _stop(request: Request) -> str:
    reason = f": {request.reason}" if request.by.startswith("rule:") else ""
    return f"stop the job{reason}"


_DESCRIBERS: Final[dict[str, Callable[[Request], str]]] = {"set": _set, "profile": _profile, RULE: _rule, "stop": _stop}
