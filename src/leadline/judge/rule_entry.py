"""The state of one rule while a run is evaluated, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from leadline.records import describe
from leadline.records.documents import SummarizedRule
from leadline.records.finding import Finding
from leadline.records.manifest import RuleSpec
from leadline.records.names import Severity


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The result of one rule."""

    name: str
    """Its alias."""
    rule: str
    parameters: Mapping[str, Any]
    status: str
    verdict: str | None
    """``clear``, ``fired``, ``undecided``, ``not_applicable``; None: it failed."""
    why: str
    """Why it is undecided or not applicable, or how it failed."""
    judged_steps: int
    findings: tuple[Finding, ...]
    product: Mapping[str, Any] = field(default_factory=dict)
    """What it has collected beside its verdict."""
    sampling: str = ""
    """How often its data was captured, if less often than requested."""
    explains: tuple[str, ...] = ()
    """The names of rules whose findings may follow from those of this one."""
    severity: Severity = "warning"
    judged_step: int = -1
    """The last step that it was asked about."""

    def summarized(self, cause: str | None) -> SummarizedRule:
        """Return the rule as in the rule summary, with its first finding.

        Args:
            cause: The rule from whose findings it follows.
        """
        first = self.findings[0] if self.findings else None
        return SummarizedRule(
            name=self.name,
            rule=self.rule,
            status=self.status,
            verdict=self.verdict,
            severity=self.severity,
            findings=len(self.findings),
            step=first.step if first else None,
            suggestion=first.suggestion if first else None,
            explained_by=cause,
        )


@dataclass(frozen=True, slots=True)
class Results:
    """The results of all rules of a run."""

    rules: tuple[RuleResult, ...]
    damage: tuple[str, ...]
    """One line for each part of the run that could not be read."""


@dataclass(slots=True)
class RuleEntry:
    """The results of one rule."""

    spec: RuleSpec
    parameters: Mapping[str, Any]
    """The parameters that were given; all parameters once the rule was constructed."""
    explains: tuple[str, ...] = ()
    """The names of rules whose findings may follow from those of this one."""
    severity: Severity = "warning"
    verdict: str | None = None
    why: str = ""
    sampling: str = ""
    judged_steps: int = 0
    judged_step: int = -1
    """The last step that it was asked about."""
    error: str | None = None
    product: Mapping[str, Any] = field(default_factory=dict)
    """The data that a rule that never fires has collected."""
    findings: dict[int, Finding] = field(default_factory=dict)
    """The findings by id, closed ones in their final state."""
    open_ids: set[int] = field(default_factory=set)
    """The ids of the findings that are open."""
    changed_ns: int = 0
    """When an update of the rule arrived last."""
    missing_data: str = ""
    """Why data that the rule needs is not in the run; without a finding the rule is undecided then."""
    stopped: str = ""
    """Why it is not evaluated, or not to the end of the run; empty: it is."""

    def status(self, *, is_complete: bool) -> str:
        """Return the status under its name in SageMaker."""
        if self.error is not None:
            return "Error"
        if self.findings:
            return "IssuesFound"
        if self.stopped:
            return "Stopped"
        return "NoIssuesFound" if is_complete else "InProgress"

    def current_verdict(self, *, is_complete: bool) -> str | None:
        """Return ``clear``, ``fired``, ``undecided`` or ``not_applicable``; None: it failed, or is not decided yet."""
        if self.findings:
            return "fired"
        if self.error is not None:
            return None
        if self.verdict == "not_applicable":
            return self.verdict
        if self.stopped and not self.is_clear_so_far:
            return "undecided"
        verdict = "undecided" if self.missing_data else self.verdict
        return (verdict or "undecided") if is_complete or verdict == "clear" else None

    def summarized(self, cause: str | None, *, is_complete: bool) -> SummarizedRule:
        """Return the rule as in the rule summary, with its first finding.

        Args:
            cause: The rule from whose findings it follows.
            is_complete: Whether the run is evaluated to its end.
        """
        first = self.findings[min(self.findings)] if self.findings else None
        has_passed = first is not None and all(finding.has_passed for finding in self.findings.values())
        suggestion = first.suggestion if first and not has_passed else None
        return SummarizedRule(
            name=self.spec.alias,
            rule=self.spec.rule,
            status=self.status(is_complete=is_complete),
            verdict=self.current_verdict(is_complete=is_complete),
            why=self.reason,
            sampling=self.sampling,
            severity="advice" if has_passed else self.severity,
            findings=len(self.findings),
            step=first.step if first else None,
            since_step=first.since_step if first else None,
            has_passed=has_passed,
            last_step=first.last_step if first and not first.is_open else None,
            is_open=first.is_open if first else False,
            message=first.message if first else None,
            suggestion=suggestion if cause is None else describe.advice_of_cause(cause),
            explained_by=cause,
        )

    def result(self) -> RuleResult:
        """Return the result of the rule in a run that is over."""
        return RuleResult(
            self.spec.alias,
            self.spec.rule,
            self.parameters,
            self.status(is_complete=True),
            self.current_verdict(is_complete=True),
            self.reason,
            self.judged_steps,
            tuple(self.findings[number] for number in sorted(self.findings)),
            self.product,
            self.sampling,
            self.explains,
            self.severity,
            self.judged_step,
        )

    @property
    def is_clear_so_far(self) -> bool:
        """Whether its evaluation was ended early, and it is clear up to the last step that it has judged."""
        return self.stopped == describe.ENDED_EARLY and self.verdict == "clear" and not self.missing_data

    @property
    def reason(self) -> str:
        """Why it is not applicable or has no verdict; empty: it has one."""
        if self.error is not None or self.findings:
            return self.error or ""
        if self.verdict == "not_applicable":
            return self.why
        if self.stopped:
            return describe.ended_early(self.judged_step) if self.is_clear_so_far else self.stopped
        return self.missing_data or ("" if self.verdict == "clear" else self.why)
