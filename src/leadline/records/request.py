"""Control requests to a running job, and the answers to them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Final, Literal, Self, get_args

from leadline.records.decoding import Document, StrictDocument
from leadline.records.json_object import JsonObject
from leadline.records.manifest import RuleSpec
from leadline.records.metric import NOT_SAMPLED
from leadline.records.plan import CaptureItem
from leadline.records.profile_window import ProfileWindow

TRAINING_ENDED: Final = "the training had ended"
"""The reason for refusing a request that arrives too late."""
_COMMAND_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Request(Document):
    """What all requests have; the id is the name of the request's file."""

    kind: ClassVar[str]

    id: str
    reason: str = ""
    """The displayed reason in one line: ``exploding_tensor`` …"""
    by: str = ""
    """The sender: ``rule:<name>``, ``user``, ``agent``."""
    time_ns: int = 0

    @property
    def is_by_rule(self) -> bool:
        return self.by.startswith("rule:")


@dataclass(frozen=True, slots=True)
class Stop(Request, StrictDocument):
    """Stop the job: workers at a step boundary, the agent with signals."""

    kind: ClassVar[str] = "stop"

    step: int | None = None
    """The global step from which it applies; None: at once."""
    grace_seconds: float = 30.0
    """Time for the job to react before signals are sent."""
    let_script_finish: bool = False
    """Whether only the training ends, if its loop can be asked to, and the script continues after it."""


@dataclass(frozen=True, slots=True)
class SetInterval(Request):
    """Sample the system metrics at another interval, or no longer; addressed to the agents."""

    kind: ClassVar[str] = "set"

    interval_ms: int = NOT_SAMPLED


@dataclass(frozen=True, slots=True)
class Profile(Request, StrictDocument):
    """Record profile windows; addressed to the workers."""

    kind: ClassVar[str] = "profile"

    windows: tuple[ProfileWindow, ...] = ()
    off: bool = False
    """Whether open windows end with the step and pending ones are cancelled."""


@dataclass(frozen=True, slots=True)
class AddRules(Request, StrictDocument):
    """Evaluate more rules: the judge runs them, the workers capture their needs."""

    kind: ClassVar[str] = "rule"

    rules: tuple[RuleSpec, ...] = ()
    items: tuple[CaptureItem, ...] = ()
    """The captures that the rules need in addition."""


@dataclass(frozen=True, slots=True)
class RemoveRules(Request, StrictDocument):
    """End the evaluation of rules: the judge drops them, the workers no longer capture what only they need."""

    kind: ClassVar[str] = "remove_rule"

    rules: tuple[str, ...] = ()
    """Names of rules."""
    items: tuple[CaptureItem, ...] = ()
    """The captures that only these rules need."""


@dataclass(frozen=True, slots=True)
class ChangeCapture(Request, StrictDocument):
    """Capture a collection at other steps, or no longer; addressed to the workers."""

    kind: ClassVar[str] = "capture"

    collection: str = field(kw_only=True)
    removed: tuple[CaptureItem, ...] = ()
    """The items that are no longer captured."""
    added: tuple[CaptureItem, ...] = ()
    """The items that are captured in their place."""


@dataclass(frozen=True, slots=True)
class Track(Request, StrictDocument):
    """Log the state of a rule to the script's own trackers; addressed to the workers."""

    kind: ClassVar[str] = "track"

    rule: str = field(kw_only=True)
    value: float = field(kw_only=True)
    status: str = ""
    step: int | None = None
    message: str = ""
    to: str = "every"


@dataclass(frozen=True, slots=True)
class ExecuteCommand(Request):
    """Run a shell command of the run's actions; addressed to the agent."""

    kind: ClassVar[str] = "run_command"

    command: str = ""
    timeout: float = _COMMAND_SECONDS
    notice: JsonObject = field(default_factory=dict)
    """The notification, as plain JSON values."""

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Create a request from a decoded JSON value; a time limit that is none takes the default."""
        request = super(ExecuteCommand, cls).from_dict(data)
        return request if 0 < request.timeout < math.inf else replace(request, timeout=_COMMAND_SECONDS)


@dataclass(frozen=True, slots=True)
class UnreadableRequest(Request):
    """A request of a kind that this version does not know, or with invalid parameters."""

    kind: ClassVar[str] = ""

    named: str = ""
    """The kind in the document."""
    problem: str = ""


ControlRequest = (
    Stop | SetInterval | Profile | AddRules | RemoveRules | ChangeCapture | Track | ExecuteCommand | UnreadableRequest
)
PlanChange = AddRules | RemoveRules | ChangeCapture
"""The requests that change what is captured."""
_KINDS: Final[Mapping[str, type[ControlRequest]]] = {kind.kind: kind for kind in get_args(ControlRequest) if kind.kind}
_COMMON: Final = frozenset(item.name for item in fields(Request))


def changed_items(items: tuple[CaptureItem, ...], request: PlanChange) -> tuple[CaptureItem, ...]:
    """Return the capture items after a request, in the order in which they were added."""
    removed: tuple[CaptureItem, ...] = ()
    added: tuple[CaptureItem, ...] = ()
    match request:
        case AddRules():
            added = request.items
        case RemoveRules():
            removed = request.items
        case ChangeCapture():
            removed, added = request.removed, request.added
    kept = tuple(item for item in items if item not in removed)
    return kept + tuple(item for item in added if item not in kept)


def request_to_dict(request: ControlRequest) -> JsonObject:
    """Return a request as plain JSON values."""
    values = asdict(request)
    common = {name: values.pop(name) for name in _COMMON}
    own = {name: values.pop(name) for name in ("step", "grace_seconds")} if isinstance(request, Stop) else {}
    return {**common, "kind": request.kind, **own, "parameters": values}


def request_from_dict(data: Any) -> ControlRequest:
    """Create a request from ``request_to_dict`` output; keys of newer versions are ignored.

    Raises:
        TypeError: It is not a request.
    """
    if not isinstance(data, Mapping) or not isinstance(data.get("id"), str) or not isinstance(data.get("kind"), str):
        raise TypeError("a request has an id and a kind")
    named, common = data["kind"], {name: data[name] for name in _COMMON if name in data}
    if named not in _KINDS:
        return UnreadableRequest(**common, named=named, problem=f"unknown request kind {named!r}")
    try:
        return _KINDS[named].from_dict({**data, **(data.get("parameters") or {})})
    except TypeError as error:
        return UnreadableRequest(**common, named=named, problem=f"invalid request: {error}")


AnswerState = Literal["taken", "done", "refused", "failed"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a process did with a request."""

    state: AnswerState = "taken"
    """``taken``: it takes effect; ``done``, with its result; ``refused`` for good; ``failed``, and may be retried."""
    reason: str = ""
    """Details, the result, or why it was refused or has failed."""

    @property
    def is_accepted(self) -> bool:
        return self.state in ("taken", "done")

    def __str__(self) -> str:
        """Return the answer as it is stored: ``taken``, ``refused: <why>``, ``logged to wandb run abc``."""
        if self.state == "done":
            return self.reason
        return f"{self.state}: {self.reason}" if self.reason else self.state

    @classmethod
    def parse(cls, text: str) -> Answer:
        """Create an answer from its stored form."""
        state, _, reason = text.partition(": ")
        return cls(state, reason) if state in get_args(AnswerState) else cls("done", text)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """The answer of a worker, an agent or the judge to a request."""

    id: str
    worker: str
    step: int
    """The train step at which the request was applied; -1 for a process without steps."""
    time_ns: int
    answer: Answer = Answer()

    def to_dict(self) -> JsonObject:
        """Return the acknowledgement as plain JSON values."""
        common = {"id": self.id, "worker": self.worker, "step": self.step, "time_ns": self.time_ns}
        return {**common, "outcome": str(self.answer)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Acknowledgement:
        """Create an acknowledgement from ``to_dict`` output.

        Raises:
            TypeError, KeyError: It is not an acknowledgement.
        """
        answer = Answer.parse(str(data["outcome"]))
        return cls(str(data["id"]), str(data["worker"]), int(data["step"]), int(data["time_ns"]), answer)
