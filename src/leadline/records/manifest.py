"""The manifest: the resolved configuration of a run, written before it starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from leadline.records.decoding import StrictDocument
from leadline.records.json_object import JsonObject
from leadline.records.names import EVERY_STATUS
from leadline.records.plan import CapturePlan
from leadline.records.profile_window import ProfileWindow


@dataclass(frozen=True, slots=True)
class RuleSpec(StrictDocument):
    """A rule of a run with its parameters."""

    alias: str
    """The rule's name in this run."""
    rule: str
    """The rule's own name, ``file.py:Class`` or ``module:Class``."""
    parameters: JsonObject = field(default_factory=dict)
    """The parameters that were given, already converted to the fields' types."""
    folder: str = ""
    """The folder to which a relative file path refers."""
    source: str = "default"
    """``default``, ``option``, ``config`` or ``action``."""


@dataclass(frozen=True, slots=True)
class ActionSpec(StrictDocument):
    """An action that runs when a rule or the job reaches a status."""

    rule: str
    """An alias of the run, ``*`` (every rule) or ``job``."""
    action: str
    """The action's own name, ``file.py:Class`` or ``module:Class``."""
    statuses: tuple[str, ...] = ("IssuesFound",)
    """The statuses that trigger the action; ``*`` means all."""
    parameters: JsonObject = field(default_factory=dict)
    """The parameters that were given, converted to the fields' types; ``$NAME`` in strings is kept as written."""
    display_name: str = ""
    """The action as shown to users: ``notify:$MAIL``."""
    folder: str = ""
    """The folder to which a relative file path refers."""
    source: str = "option"
    """``option`` or ``config``."""

    def __str__(self) -> str:
        return self.display_name or self.action

    def follows(self, status: str) -> bool:
        """Return whether a status triggers the action."""
        return EVERY_STATUS in self.statuses or status in self.statuses

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Create an action from its stored form.

        Early manifests of format 1 have ``status`` for ``statuses``, and ``spoken`` for ``display_name``.
        """
        if isinstance(data, dict) and not data.get("statuses"):
            data = data | {"statuses": (data.get("status", "IssuesFound"),)}
        if isinstance(data, dict) and "spoken" in data:
            data = {"display_name": data["spoken"]} | data
        return super(ActionSpec, cls).from_dict(data)


@dataclass(frozen=True, slots=True)
class Manifest(StrictDocument):
    """The content of ``manifest.json``; the agent adds ``workers``, ``nodes`` and ``lost`` during the run."""

    name: str
    uri: str
    command: tuple[str, ...]
    """The training command, with secrets masked."""
    started_ns: int
    leadline: str
    """The version of Leadline that wrote the manifest."""
    preset: str = "standard"
    interval_ms: int = 500
    folder: str = ""
    """The working directory of the command."""
    versions: dict[str, str] = field(default_factory=dict)
    plan: CapturePlan = field(default_factory=CapturePlan)
    rules: tuple[RuleSpec, ...] = ()
    actions: tuple[ActionSpec, ...] = ()
    profile: tuple[ProfileWindow, ...] = ()
    """The profile windows requested before the start."""
    metrics: dict[str, str] = field(default_factory=dict)
    """Regular expressions with one group, by the name of the metric that it is in a printed line."""
    roles: dict[str, str] = field(default_factory=dict)
    """Roles of logged metrics by their names, in addition to those that are known."""
    settings: JsonObject | None = None
    """The requested settings as in ``leadline.toml``, secrets as ``$NAME``; None: written by an older version."""
    format: int = 1
    workers: tuple[JsonObject, ...] = ()
    """The final document of each worker, added by the agent when the run ends."""
    nodes: tuple[JsonObject, ...] = ()
