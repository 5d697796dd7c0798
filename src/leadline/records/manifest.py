"""The manifest: what a run is, as resolved before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from leadline.records.plan import CapturePlan


@dataclass(frozen=True, slots=True)
class RuleSpec:
    """A rule as a run uses it."""

    alias: str
    """Its name in this run."""
    rule: str
    """The rule's own name, ``file.py:Class`` or ``module:Class``."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """Only those that were given, already converted to the fields' types."""
    folder: str = ""
    """What a relative file is relative to."""
    source: str = "default"
    """``default``, ``option``, ``config`` or ``action``."""


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """What follows when a rule reaches a status."""

    rule: str
    """An alias of the run, or ``*``."""
    action: str
    status: str = "IssuesFound"
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What stands in ``manifest.json``; the agent adds ``workers``, ``nodes`` and ``lost`` as they come."""

    name: str
    uri: str
    command: tuple[str, ...]
    """With secrets masked."""
    started_ns: int
    leadline: str
    """The version that wrote it."""
    preset: str = "standard"
    interval_ms: int = 500
    folder: str = ""
    """The working directory of the command."""
    versions: dict[str, str] = field(default_factory=dict)
    plan: CapturePlan = field(default_factory=CapturePlan)
    rules: tuple[RuleSpec, ...] = ()
    actions: tuple[ActionSpec, ...] = ()
    format: int = 1
    workers: tuple[dict[str, Any], ...] = ()
    """What each worker said of itself, folded in by the agent when it ends."""
    nodes: tuple[dict[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Manifest:
        """The inverse of ``to_dict``; unknown keys are of a newer version and left out."""
        known = {key: data[key] for key in cls.__dataclass_fields__ if key in data}
        known["command"] = tuple(known["command"])
        known["plan"] = CapturePlan.from_dict(known["plan"])
        known["rules"] = tuple(RuleSpec(**each) for each in known["rules"])
        known["actions"] = tuple(ActionSpec(**each) for each in known["actions"])
        known["workers"] = tuple(known.get("workers", ()))
        known["nodes"] = tuple(known.get("nodes", ()))
        return cls(**known)
