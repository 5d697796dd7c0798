"""The overview of a run as it is in JSON: what ``leadline show --json`` prints."""

from __future__ import annotations

from typing import TypedDict

from leadline.analysis.time_document import TimeDocument
from leadline.records.json_object import JsonObject
from leadline.records.names import Severity
from leadline.records.outcome_document import OutcomeDocument


class FindingDocument(TypedDict):
    """A finding of a rule, in its latest version."""

    step: int
    last_step: int
    is_open: bool
    message: str
    tensors: list[str]
    tensor_count: int
    worker: str | None
    evidence: JsonObject
    suggestion: str | None
    count: int


class RuleOverview(TypedDict):
    """A rule with its status, verdict and findings."""

    name: str
    rule: str
    status: str
    verdict: str | None
    why: str
    sampling: str
    severity: Severity
    explained_by: str | None
    findings: list[FindingDocument]


class StartCost(TypedDict):
    """See ``StartAndRest``."""

    steps: int
    seconds: float
    step_share_since: float


class CostDocument(TypedDict):
    """The overhead as time and share of step time, its size on disk, and what was sampled less often."""

    seconds: float | None
    step_share: float | None
    start: StartCost | None
    compile_seconds: float
    beside_seconds: float | None
    """The processor time of the agents and the judge; None: the run has not ended."""
    bytes: int
    captures: list[JsonObject]
    """Each a ``CaptureCost``."""
    sampled: list[JsonObject]


class WorkerOverview(TypedDict):
    """A worker; see ``WorkerDocument``."""

    worker: str
    node: str | None
    pid: int | None
    state: str
    framework: str
    models: list[JsonObject]
    """Each a ``WatchedModel``."""
    optimizers: list[str]
    step: int
    lost: JsonObject | None
    """A ``DroppedData``."""
    off: JsonObject | None
    """A ``DisabledCapture``."""
    notes: list[str]


class ActionOverview(TypedDict):
    """An action that was performed, or is; see ``LoggedAction``."""

    rule: str
    action: str
    state: str
    outcome: str
    step: int | None
    attempts: int
    notice: str
    time: str | None


class CheckpointDocument(TypedDict):
    """The checkpoint to go back to; see ``CheckpointToKeep``."""

    path: str
    step: int
    problem_step: int | None


class RunOverview(TypedDict):
    """One run."""

    name: str
    uri: str
    upload: str | None
    removed: str | None
    """What the bound on the run's size has removed."""
    status: str
    status_note: str
    outcome: OutcomeDocument
    stopped_by: str | None
    exit_status: int | None
    command: list[str]
    preset: str
    started: str
    ended: str | None
    interruptions: list[JsonObject]
    """Each an ``Interruption``."""
    steps: dict[str, int]
    planned_steps: int | None
    """The train steps that there will be when the trainer has carried out its plan."""
    trainings: list[int]
    checkpoint: CheckpointDocument | None
    workers: list[WorkerOverview]
    cost: CostDocument
    lost: list[JsonObject]
    """Each a ``DroppedData``."""
    damage: list[str]
    rules: list[RuleOverview]
    actions: list[ActionOverview]
    time: TimeDocument
