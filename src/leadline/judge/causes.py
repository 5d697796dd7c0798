"""Which finding comes of which: so that a verdict leads with the cause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from leadline.records.finding import Finding

REACH_STEPS: Final = 1000
"""So long after a finding has closed what it explains may still follow from it."""


@dataclass(frozen=True, slots=True)
class FiredRule:
    """A rule that found something."""

    alias: str
    rule: str
    """The rule's own name."""
    findings: Sequence[Finding]
    """In the order in which they opened."""
    explains: tuple[str, ...] = ()
    """Names of rules whose findings may follow from its own."""

    @property
    def step(self) -> int:
        """The step at which it first found something."""
        return self.findings[0].step

    def may_lead_to(self, other: FiredRule) -> bool:
        """Whether it declares to explain the other rule, and found something when or before that first did."""
        if other.rule not in self.explains or other.alias == self.alias:
            return False
        return any(
            each.step <= other.step and (each.is_open or other.step <= each.last_step + REACH_STEPS)
            for each in self.findings
        )


def causes(found: Iterable[FiredRule]) -> dict[str, str]:
    """For each rule whose first finding follows from another's: the alias of the rule at the root of it.

    Of several that may be the cause the earliest is taken; where two explain each other at the same step, neither is.
    """
    known = {each.alias: each for each in found}
    parents = {alias: _parent(each, known) for alias, each in known.items()}
    roots = {alias: _root(alias, parents) for alias in known}
    return {alias: root for alias, root in roots.items() if root is not None and root != alias}


def _parent(effect: FiredRule, known: Mapping[str, FiredRule]) -> str | None:
    candidates = [
        each
        for each in known.values()
        if each.may_lead_to(effect) and not (each.step == effect.step and effect.may_lead_to(each))
    ]
    return min(candidates, key=lambda each: each.step).alias if candidates else None


def _root(alias: str, parents: Mapping[str, str | None]) -> str | None:
    """The end of the way from effect to cause; a way that goes round in a circle has none."""
    seen = {alias}
    at = alias
    while (parent := parents[at]) is not None:
        if parent in seen:
            return None
        seen.add(parent)
        at = parent
    return at
