"""Control requests to a running job, and their acknowledgements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

AGENT_KINDS: Final = frozenset({"run_command", "set"})
"""The kinds that agents handle and workers ignore; a worker refuses any other kind that it does not know."""
RULE: Final = "rule"
"""The kind of request that adds rules to a running job: the judge runs them, the workers capture their needs."""
TRAINING_ENDED: Final = "the training had ended"
"""The reason for refusing a request that arrives too late."""
REFUSED: Final = "refused: "
"""Prefix of the outcome of a request that is refused for good."""
FAILED: Final = "failed: "
"""Prefix of the outcome of a request that may be retried."""


@dataclass(frozen=True, slots=True)
class Request:
    """One immutable request; its id is the name of its file."""

    id: str
    kind: str
    """``stop``, ``track``, ``run_command`` …"""
    step: int | None = None
    """The global step from which it applies; None: at once."""
    reason: str = ""
    """The displayed reason in one line: ``exploding_tensor`` …"""
    by: str = ""
    """The sender: ``rule:<name>``, ``user``, ``agent``."""
    time_ns: int = 0
    grace_seconds: float = 30.0
    """Time for the job to react before signals are sent."""
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """The answer of a worker or agent to a request."""

    id: str
    worker: str
    step: int
    time_ns: int
    outcome: str = "taken"
    """``taken``, or a result such as ``logged to wandb run abc``, ``refused: <why>`` or ``failed: <why>``."""
