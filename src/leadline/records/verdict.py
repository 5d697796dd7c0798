"""The three kinds of verdicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Clear:
    """The rule was evaluated and did not fire."""

    product: dict[str, Any] = field(default_factory=dict, hash=False)
    """Results that the rule has collected beside its verdict; plain JSON values, the last of a run are kept."""


@dataclass(frozen=True, slots=True)
class Fired:
    """The rule fired."""

    message: str
    """The observation with numbers and names, in one line."""
    tensors: tuple[str, ...] = ()
    """Names of the affected tensors (or devices), worst first."""
    evidence: dict[str, Any] = field(default_factory=dict)
    """The numbers behind the message; plain JSON values."""
    suggestion: str = ""
    """The first thing to try, then the usual cause; shown after ``try:``."""
    worker: str | None = None
    """The affected worker; None: all, or unknown."""
    product: dict[str, Any] = field(default_factory=dict)
    """As in ``Clear``."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """The rule cannot decide."""

    why: str
    """The missing data and how to get them, in one line."""
    product: dict[str, Any] = field(default_factory=dict, hash=False)
    """As in ``Clear``."""


Verdict = Clear | Fired | Undecided
