"""The messages between the judge and its workers, as JSON: see ``process.messages``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from leadline.judge.episodes import Event
from leadline.records.json_object import JsonObject
from leadline.records.names import Severity


class RuleSetup(TypedDict):
    """The first message of a run to a rule worker."""

    run: str
    name: str
    started_ns: int
    rules: list[JsonObject]
    """Each a ``RuleSpec``."""
    is_over: bool
    is_custom: bool
    memory_bytes: int


class EvaluationRequest(TypedDict):
    """Asks a rule worker to evaluate new data."""

    is_over: bool
    gone: list[str]


class RuleDescription(TypedDict, total=False):
    """What the judge must know of a rule; of one that cannot be constructed only the error."""

    error: str
    parameters: JsonObject
    explains: list[str]
    severity: Severity
    needs: list[JsonObject]
    """Each a ``TensorNeed``."""
    has_phases: bool
    implied: list[str]
    product: str


class RuleTrackState(TypedDict):
    """The state of a rule that was evaluated."""

    verdict: str
    why: str
    sampling: str
    judged_steps: int
    judged_step: int
    findings: int
    error: str | None
    product: JsonObject


class EvaluationAnswer(TypedDict):
    """See ``EvaluationProgress``."""

    rules: dict[str, RuleTrackState]
    events: list[tuple[str, Event]]
    restarted: list[str]
    judged_step: int
    seen: dict[str, tuple[int, int]]
    damage: list[str]
    has_more: bool


class ActionSetup(TypedDict):
    """The first message to an action worker."""

    run: str
    action: str
    parameters: Mapping[str, Any]
    folder: str
    follows: NotRequired[str]
    """The rule that triggers it."""


class ActionRequest(TypedDict):
    """Asks an action worker to perform its action."""

    notice: JsonObject
    """A ``Notification``."""
    workers: Sequence[JsonObject]
    """Each a ``TrainingProgress``."""
    now_ns: int


class ActionAnswer(TypedDict, total=False):
    """An answer of an action worker: a policy, an outcome, or an error."""

    policy: JsonObject
    """A ``RetryPolicy``, of an action that was constructed."""
    is_volatile: bool
    begun: bool
    """The notification is prepared, and the action begins."""
    outcome: str
    """See ``Outcome``, as the next four."""
    step: int | None
    request: str | None
    announcement: str | None
    is_nothing: bool
    error: str
    is_final: bool
    """Whether another attempt would not help."""
    after_seconds: float | None
    closed: bool
