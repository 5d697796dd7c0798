"""A notice: something that came of a run, as actions are told of it and as it is sent to other programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

NoticeKind = Literal["finding", "closed", "rule_status", "job_status"]

NOTICE_FORMAT = 1
"""The version of what ``to_dict`` gives."""


@dataclass(frozen=True, slots=True)
class TensorSnapshot:
    """What the run holds of a tensor at the step of a finding."""

    name: str
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    statistics: dict[str, float] = field(default_factory=dict)
    """By name, those that were captured at that step."""
    values: tuple[float, ...] | None = None
    """The first elements in row-major order, where the tensor was stored raw."""
    uri: str | None = None
    """Where it lies raw: ``file:///…/000001.safetensors#train/1314/fc.weight``; None: it was not stored raw."""


@dataclass(frozen=True, slots=True)
class RuleState:
    """Where a rule of the run stands."""

    name: str
    rule: str
    status: str
    verdict: str | None
    """``clear``, ``fired`` (an episode is open, or was), ``undecided``; None: not yet, or it failed."""
    is_open: bool = False
    """Whether an episode is open."""
    why: str = ""
    updated_ns: int = 0
    findings: int = 0
    """How many episodes it has had."""


@dataclass(frozen=True, slots=True)
class Notification:
    """One finding that opened or closed, or one change of a rule's or the job's status."""

    id: str
    """The same whoever judges, and unique within the run: ``exploding_tensor/opened/1313``."""
    kind: NoticeKind
    run: str
    """The run's name."""
    uri: str
    """Where it stands."""
    status: str
    """The rule's status, or the job's: ``IssuesFound``, ``Completed`` …"""
    time_ns: int
    """When it happened, as recorded: wall clock, ns since the epoch."""
    job_status: str = "InProgress"
    started_ns: int = 0
    """When the run was started."""
    rule: str | None = None
    """The rule's name in the run; None: it concerns the job."""
    kind_of_rule: str | None = None
    """The rule's own name."""
    previous: str | None = None
    """The status before this one."""
    verdict: str | None = None
    why: str = ""
    """Why a rule is undecided, or how it failed."""
    step: int | None = None
    """The global step."""
    worker: str | None = None
    message: str = ""
    suggestion: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)
    tensors: tuple[TensorSnapshot, ...] = ()
    tensor_count: int = 0
    """How many tensors showed it; those beyond the named are counted only."""
    rules: tuple[RuleState, ...] = ()
    """All rules of the run as they stand."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {"format": NOTICE_FORMAT, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Notification:
        """The inverse of ``to_dict``; unknown keys are of a newer version and left out."""
        known = {key: data[key] for key in cls.__dataclass_fields__ if key in data}
        known["tensors"] = tuple(_snapshot(each) for each in known.get("tensors", ()))
        known["rules"] = tuple(RuleState(**each) for each in known.get("rules", ()))
        return cls(**known)


def _snapshot(data: Mapping[str, Any]) -> TensorSnapshot:
    shape, values = data.get("shape"), data.get("values")
    given = {
        **data,
        "shape": None if shape is None else tuple(shape),
        "statistics": {name: float(each) for name, each in data.get("statistics", {}).items()},  # JSON says "NaN"
        "values": None if values is None else tuple(map(float, values)),
    }
    return TensorSnapshot(**given)
