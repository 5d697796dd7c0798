"""The manifest: what a run is, as resolved before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from leadline.records.names import EVERY_STATUS
from leadline.records.plan import CapturePlan
from leadline.records.profile_window import ProfileWindow


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
    """What follows when a rule, or the job, reaches a status."""

    rule: str
    """An alias of the run, ``*`` (every rule) or ``job``."""
    action: str
    """The action's own name, ``file.py:Class`` or ``module:Class``."""
    statuses: tuple[str, ...] = ("IssuesFound",)
    """Those that it follows; ``*`` is every one."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """Only those that were given, converted to the fields' types; in texts ``$NAME`` stands as it was written."""
    spoken: str = ""
    """How people are told of it: ``notify:$MAIL``."""
    folder: str = ""
    """What a relative file is relative to."""
    source: str = "option"
    """``option`` or ``config``."""

    def __str__(self) -> str:
        return self.spoken or self.action

    def follows(self, status: str) -> bool:
        """Whether it follows a status."""
        return EVERY_STATUS in self.statuses or status in self.statuses

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ActionSpec:
        """The inverse of ``asdict``; format 1 began with one ``status`` in place of ``statuses``."""
        known = {key: data[key] for key in cls.__dataclass_fields__ if key in data}
        known["statuses"] = tuple(data.get("statuses") or (data.get("status", "IssuesFound"),))
        return cls(**known)


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
    profile: tuple[ProfileWindow, ...] = ()
    """What is looked at in depth, as asked before the start."""
    settings: dict[str, Any] | None = None
    """What was asked for, in the words of ``leadline.toml``, secrets as ``$NAME``; None: an older version wrote it."""
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
        known["profile"] = tuple(map(ProfileWindow.from_dict, known.get("profile", ())))
        known["actions"] = tuple(map(ActionSpec.from_dict, known["actions"]))
        known["workers"] = tuple(known.get("workers", ()))
        known["nodes"] = tuple(known.get("nodes", ()))
        return cls(**known)
