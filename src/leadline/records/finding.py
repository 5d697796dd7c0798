"""A finding: an episode in which a rule fired."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MOST_NAMED = 20
"""Tensors beyond so many are counted, not named."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One episode: opened at a step, continued, closed."""

    id: int
    """Counts from 1 within the rule."""
    rule: str
    """The rule's name in this run (its alias)."""
    step: int
    """The global step at which it opened."""
    last_step: int
    """The last global step at which the rule fired in this episode."""
    is_open: bool
    time_ns: int
    """Wall clock of the step at which it opened."""
    message: str
    suggestion: str = ""
    tensors: tuple[str, ...] = ()
    """At most ``MOST_NAMED`` names."""
    tensor_count: int = 0
    """How many tensors showed it."""
    worker: str | None = None
    evidence: dict[str, Any] = field(default_factory=dict)
    count: int = 1
    """How many judged steps it lasted."""
