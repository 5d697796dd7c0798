"""The results of the rules of a run, as the judge returns them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from leadline.records.finding import Finding


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The result of one rule."""

    name: str
    """Its alias."""
    rule: str
    parameters: Mapping[str, Any]
    status: str
    verdict: str | None
    """``clear``, ``fired``, ``undecided``; None: it failed."""
    why: str
    """Why it is undecided, or how it failed."""
    judged_steps: int
    findings: tuple[Finding, ...]
    product: Mapping[str, Any] = field(default_factory=dict)
    """What it has collected beside its verdict."""


@dataclass(frozen=True, slots=True)
class Results:
    """The results of all rules of a run."""

    rules: tuple[RuleResult, ...]
    damage: tuple[str, ...]
    """One line for each part of the run that could not be read."""
