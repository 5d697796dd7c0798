"""Attribution of findings to the findings that caused them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from leadline.records.finding import Finding

MAX_DISTANCE_STEPS: Final = 1000
"""A finding may explain another one that opens up to so many steps after it has closed."""


@dataclass(frozen=True, slots=True)
class FiredRule:
    """A rule that fired."""

    alias: str
    rule: str
    """The rule's own name."""
    findings: Sequence[Finding]
    """Its findings in the order in which they opened."""
    explains: tuple[str, ...] = ()
    """The names of rules whose findings this one may explain."""

    @property
    def step(self) -> int:
        """The step of the first finding."""
        return self.findings[0].step

    @property
    def training(self) -> int:
        """The training of the first finding."""
        return self.findings[0].training

    @property
    def first_step(self) -> int:
        """The step at which the first finding began."""
        return self.findings[0].first_step

    def may_lead_to(self, other: FiredRule) -> bool:
        """Return whether it declares to explain another rule, and what it found began no later than that rule fired."""
        if other.rule not in self.explains or other.alias == self.alias:
            return False
        return any(
            finding.training == other.training
            and finding.first_step <= other.step
            and (finding.is_open or other.step <= finding.last_step + MAX_DISTANCE_STEPS)
            for finding in self.findings
        )


def causes(fired: Iterable[FiredRule]) -> dict[str, str]:
    """Return the alias of the root cause of each rule whose first finding is explained by another rule.

    Of several candidates the earliest is chosen; of two rules that explain each other at the same step neither is.
    """
    rules = {rule.alias: rule for rule in fired}
    parents = {alias: _parent(rule, rules) for alias, rule in rules.items()}
    roots = {alias: _root(alias, parents) for alias in rules}
    return {alias: root for alias, root in roots.items() if root is not None and root != alias}


def _parent(effect: FiredRule, rules: Mapping[str, FiredRule]) -> str | None:
    candidates = [
        rule
        for rule in rules.values()
        if rule.may_lead_to(effect) and not (rule.first_step == effect.first_step and effect.may_lead_to(rule))
    ]
    return min(candidates, key=lambda rule: rule.first_step).alias if candidates else None


def _root(alias: str, parents: Mapping[str, str | None]) -> str | None:
    """Return the end of the chain from effect to cause; None: the chain is a cycle."""
    seen = {alias}
    current = alias
    while (parent := parents[current]) is not None:
        if parent in seen:
            return None
        seen.add(parent)
        current = parent
    return current
