"""The three values of a verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Clear:
    """Judged, and nothing found."""

    product: dict[str, Any] = field(default_factory=dict, hash=False)
    """What the rule has gathered so far, beside its verdict; plain JSON values, the last of a run is kept."""


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
    product: dict[str, Any] = field(default_factory=dict)
    """As of ``Clear``."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """No judgement is possible."""

    why: str
    """In one line: what is missing, and what would bring it."""
    product: dict[str, Any] = field(default_factory=dict, hash=False)
    """As of ``Clear``."""


Verdict = Clear | Fired | Undecided
