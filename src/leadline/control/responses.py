"""What became of a request: who has taken it up, at which step, who refuses it and why, and who is waited for."""

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
"""How the names of agents begin where they answer."""
_POLL_SECONDS: Final = 0.05

State = Literal["waiting", "taken", "refused", "missed"]


@dataclass(frozen=True, slots=True)
class WorkerResponse:
    """What one worker, agent or judge said."""

    who: str
    step: int | None
    """The step at which it was taken up; None: of who makes no steps."""
    outcome: str
    time_ns: int


@dataclass(frozen=True, slots=True)
class RequestStatus:
    """A request, and where it stands."""

    id: str
    kind: str
    what: str
    """In a few words: ``sample the machine every 100 ms``."""
    by: str
    asked_ns: int
    state: State
    """``missed``: the job ended before anybody took it up."""
    answers: tuple[WorkerResponse, ...]
    waits_for: int
    """How many have not answered yet."""


def follow(run: Run, *, most: int = 50) -> list[RequestStatus]:
    """What people and rules asked of a run, the latest first.

    Args:
        most: So many at most.
    """
    answers: dict[str, list[Acknowledgement]] = {}
    for each in read_acknowledgements(run.uri):
        answers.setdefault(each.id, []).append(each)
    requests = [each for each in read_requests(run.uri) if each.kind in _SPOKEN][-most:]
    workers = _running(run)
    nodes = max(1, len(liveness.read_nodes(run.uri)))
    return [_followed(run, each, answers.get(each.id, []), workers, nodes) for each in reversed(requests)]


def interval_ms(run: Run) -> int:
    """How often the machine is sampled now: as the run began, or as it was last set."""
    taken = {each.id for each in read_acknowledgements(run.uri) if each.outcome == "taken"}
    told = [each.parameters for each in read_requests(run.uri) if each.kind == "set" and each.id in taken]
    set_to = [int(each["interval_ms"]) for each in told if "interval_ms" in each]
    return set_to[-1] if set_to else run.manifest.interval_ms


def await_answers(run: Run, requests: Iterable[Request], patience_seconds: float) -> dict[str, list[Acknowledgement]]:
    """The answers to requests, by id; all that are expected are waited for, and no longer than a while."""
    wanted: dict[str, list[Acknowledgement]] = {each.id: [] for each in requests}
    kinds = {each.id: each.kind for each in requests}
    end = time.monotonic() + patience_seconds
    while time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
        found = read_acknowledgements(run.uri)
        wanted = {each: [answer for answer in found if answer.id == each] for each in wanted}
        workers, nodes = _running(run), max(1, len(liveness.read_nodes(run.uri)))
        if all(told and not _waits_for(kinds[each], told, workers, nodes) for each, told in wanted.items()):
            break
    return wanted


def what(request: Request) -> str:
    """A request in a few words."""
    spoken = _SPOKEN.get(request.kind)
    return spoken(request) if spoken else request.kind


def _followed(
    run: Run, request: Request, told: Sequence[Acknowledgement], workers: set[str], nodes: int
) -> RequestStatus:
    answers = tuple(
        WorkerResponse(
            each.worker.removeprefix(AGENT), each.step if each.step >= 0 else None, each.outcome, each.time_ns
        )
        for each in told
    )
    waits_for = _waits_for(request.kind, told, workers, nodes)
    return RequestStatus(
        request.id,
        request.kind,
        what(request),
        request.by,
        request.time_ns,
        _state(run, request, told),
        answers,
        waits_for if run.status not in JOB_ENDED else 0,
    )


def _state(run: Run, request: Request, told: Sequence[Acknowledgement]) -> State:
    if any(not _is_no(each.outcome) for each in told):
        return "taken"
    if told:
        return "refused"
    if request.kind == "stop" and run.status in ("Stopping", "Stopped"):
        return "taken"  # a job that makes no steps is ended by signals, and cannot answer
    return "missed" if run.status in JOB_ENDED else "waiting"


def _is_no(outcome: str) -> bool:
    return outcome.startswith((REFUSED, FAILED))


def _waits_for(kind: str, told: Sequence[Acknowledgement], workers: set[str], nodes: int) -> int:
    who = {each.worker for each in told}
    if kind == "set":
        return max(0, nodes - len(who))
    if kind == RULE:
        return int(JUDGE not in who) + len(workers - who)
    return len(workers - who)


def _running(run: Run) -> set[str]:
    """The workers that still make steps."""
    workers = liveness.read_workers(run.uri)
    return set(workers) - liveness.finished_workers(run.uri, workers)


def _set(request: Request) -> str:
    return f"sample the machine every {spoken_interval(int(request.parameters.get('interval_ms', 0)))}"


def spoken_interval(milliseconds: int) -> str:
    """``100 ms``, ``5 s``, ``1 min``."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    return f"{seconds:g} s" if seconds < 60 else f"{seconds / 60:g} min"


def _profile(request: Request) -> str:
    if request.parameters.get("off"):
        return "look at nothing in depth any more"
    windows: list[dict[str, Any]] = request.parameters.get("windows", [])
    return "look in depth: " + "; ".join(ProfileWindow.from_dict(each).spoken() for each in windows)


def _rule(request: Request) -> str:
    aliases = ", ".join(str(each.get("alias")) for each in request.parameters.get("rules", ()))
    return f"judge by {aliases} too"


def _stop(request: Request) -> str:
    why = f": {request.reason}" if request.by.startswith("rule:") else ""
    return f"stop the job{why}"


_SPOKEN: Final[dict[str, Callable[[Request], str]]] = {"set": _set, "profile": _profile, RULE: _rule, "stop": _stop}
