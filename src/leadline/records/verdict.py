"""The three values of a verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Clear:
    """Judged, and nothing found."""


@dataclass(frozen=True, slots=True)
class Fired:
    """The fault is there."""

    message: str
    """What was seen, in numbers and names, in one line."""
    tensors: tuple[str, ...] = ()
    """Names of the tensors (or devices) that show it, the worst first."""
    evidence: dict[str, Any] = field(default_factory=dict)
    """The numbers behind it; plain JSON values."""
    suggestion: str = ""
    """What to try first, then what it usually means; it is shown behind ``try:``."""
    worker: str | None = None
    """The worker that shows it; None: all, or not known."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """No judgement is possible."""

    why: str
    """In one line: what is missing, and what would bring it."""


Verdict = Clear | Fired | Undecided
