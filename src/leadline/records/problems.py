"""The problems of a run: rules that fired, each cause with its effects."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.records.documents import SummarizedRule
from leadline.records.formatting import number
from leadline.records.outcome_document import RankedProblem, RankedRule


@dataclass(frozen=True, slots=True)
class Problem:
    """A rule whose finding no other one explains, with the rules whose findings follow from it."""

    cause: SummarizedRule
    effects: tuple[SummarizedRule, ...] = ()
    """The severest first."""

    @property
    def explains(self) -> str:
        """``explains all_zero (step 0), learning_rate (step 90)``; empty: nothing follows from it."""
        parts = [f"{rule.name}{f' ({place})' if (place := place_of(rule)) else ''}" for rule in self.effects]
        return f"explains {', '.join(parts)}" if parts else ""

    def to_dict(self) -> RankedProblem:
        """Return the cause as plain JSON values, with its effects as ``explains``."""
        return {**_finding(self.cause), "explains": [_finding(rule) for rule in self.effects]}


def _finding(rule: SummarizedRule) -> RankedRule:
    return {
        "name": rule.name,
        "rule": rule.rule,
        "severity": rule.severity,
        "step": rule.step,
        "since_step": rule.since_step,
        "last_step": rule.last_step,
        "is_open": rule.is_open,
        "message": rule.message,
        "suggestion": rule.suggestion,
        "explained_by": rule.explained_by,
    }


def place_of(rule: SummarizedRule) -> str:
    """Return the step of the first finding of a rule, as ``step 12``; empty: it has none."""
    return f"step {number(rule.step)}" if rule.step is not None and rule.step >= 0 else ""
