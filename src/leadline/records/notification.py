"""Notifications: findings and status changes as they are handed to actions and sent to other programs."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Literal

from leadline.records.decoding import StrictDocument
from leadline.records.json_object import JsonObject

NotificationKind = Literal["finding", "closed", "rule_status", "job_status"]

NOTIFICATION_FORMAT = 2
"""Version of the format of ``to_dict``."""


@dataclass(frozen=True, slots=True)
class TensorSnapshot(StrictDocument):
    """The captured data of a tensor at the step of a finding."""

    name: str
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    statistics: dict[str, float] = field(default_factory=dict)
    """The statistics captured at that step, by name."""
    values: tuple[float, ...] | None = None
    """The first elements in row-major order, if the tensor was stored raw."""
    uri: str | None = None
    """Location of the raw tensor: ``file:///…/000001.safetensors#train/1314/fc.weight``; None: not stored raw."""


@dataclass(frozen=True, slots=True)
class RuleState(StrictDocument):
    """The state of a rule of the run."""

    name: str
    rule: str
    status: str
    verdict: str | None
    """``clear``, ``fired`` (an episode is or was open), ``undecided``, ``not_applicable``; None: not decided yet, or
    failed."""
    is_open: bool = False
    """Whether an episode is open."""
    why: str = ""
    updated_ns: int = 0
    findings: int = 0
    """Number of episodes so far."""
    severity: str = "warning"
    """How severe its findings are: ``fatal``, ``warning`` or ``advice``."""

    @property
    def value(self) -> float:
        """1 if an episode is open, 0 if the rule is clear, NaN if it is undecided, not applicable or failed."""
        if self.status == "Error":
            return math.nan
        if self.is_open:
            return 1.0
        return 0.0 if self.verdict in ("clear", "fired") else math.nan


@dataclass(frozen=True, slots=True)
class Notification(StrictDocument):
    """One finding that opened or closed, or one change of the status of a rule or the job."""

    id: str
    """Unique within the run and independent of the judge process: ``exploding_tensor/opened/1313``."""
    kind: NotificationKind
    run: str
    """The run's name."""
    uri: str
    """The run's location; empty: it is a test message."""
    status: str
    """The rule's status, or the job's: ``IssuesFound``, ``Completed`` …"""
    time_ns: int
    """When it happened, as recorded: wall clock, ns since the epoch."""
    job_status: str = "InProgress"
    started_ns: int = 0
    """Start time of the run."""
    rule: str | None = None
    """The rule's name in the run; None for a notification about the job."""
    kind_of_rule: str | None = None
    """The rule's own name."""
    severity: str | None = None
    """That of the rule's findings: ``fatal``, ``warning`` or ``advice``; None for a notification of another kind."""
    previous: str | None = None
    """The status before this one."""
    verdict: str | None = None
    explained_by: str | None = None
    """The rule whose finding is the cause of this one; actions on findings of every rule have received that one."""
    why: str = ""
    """The reason why a rule is undecided or not applicable, or has failed."""
    step: int | None = None
    """The train step; in other modes the train step that had been finished."""
    global_step: int | None = None
    """The same step as in the run's raw tables, counted over all modes."""
    worker: str | None = None
    message: str = ""
    suggestion: str = ""
    evidence: JsonObject = field(default_factory=dict)
    tensors: tuple[TensorSnapshot, ...] = ()
    tensor_count: int = 0
    """Number of affected tensors, including those that are not named."""
    rules: tuple[RuleState, ...] = ()
    """The current state of all rules of the run."""

    def to_dict(self) -> JsonObject:
        """Return the notification as plain JSON values."""
        return {"format": NOTIFICATION_FORMAT, **asdict(self)}
