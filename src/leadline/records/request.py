"""Control requests: what somebody asks of a running job, and what each worker answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

OF_AGENTS: Final = frozenset({"run_command", "set"})
"""The kinds that agents take up, and workers leave to them; a worker refuses any other that it does not know."""
RULE: Final = "rule"
"""The kind of request that gives a running job more rules: the judge takes these, the workers what they need."""
ENDED: Final = "the training had ended"
"""Why an agent refuses what comes too late."""
REFUSED: Final = "refused: "
"""How an answer begins that says no for good."""
FAILED: Final = "failed: "
"""How an answer begins to what may be asked again."""


@dataclass(frozen=True, slots=True)
class Request:
    """One immutable request; the file's name is its id."""

    id: str
    kind: str
    """``stop``, ``track``, ``run_command`` …"""
    step: int | None = None
    """The global step from which on it holds; None: at once."""
    reason: str = ""
    """In one line, for people: ``exploding_tensor`` …"""
    by: str = ""
    """Who asked: ``rule:<name>``, ``user``, ``agent``."""
    time_ns: int = 0
    grace_seconds: float = 30.0
    """How long the job may take before signals follow."""
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What a worker (or the agent) did with a request."""

    id: str
    worker: str
    step: int
    time_ns: int
    outcome: str = "taken"
    """``taken``, or what came of it: ``logged to wandb run abc``; or ``refused: <why>``, ``failed: <why>``."""
