"""View of the rules of a run and their findings."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from leadline.analysis.overview import outcome_of
from leadline.reader.run import Run
from leadline.records import describe
from leadline.records.documents import LoggedAction, RuleDocument, RuleSummary, SummarizedRule
from leadline.records.finding import MAX_SHOWN_TENSORS
from leadline.records.formatting import significant
from leadline.records.manifest import RuleSpec
from leadline.records.names import Severity
from leadline.records.opposite_advice import StandingAdvice
from leadline.rules import registry
from leadline.rules.documentation import Documentation, read_documentation
from leadline.store.control import read_actions
from leadline.store.run_state import read_rule, read_rule_summary

VERDICTS: Final = {
    "fired": "fired",
    "error": "error",
    "undecided": "undecided",
    "clear": "clear",
    "waiting": "not evaluated yet",
    "not_applicable": "not applicable",
}
"""Labels of verdicts in display order."""
_VERDICT_ORDER: Final = tuple(VERDICTS)
_MAX_CHIPS: Final = 6
_UNITS: Final = {"percent": "%", "ms": "ms", "seconds": "s", "bytes": "bytes"}
"""The unit at the end of a name, and how it is written."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A rule parameter as set in a run."""

    name: str
    value: str
    is_default: bool
    accepted: str
    about: str


@dataclass(frozen=True, slots=True)
class FindingView:
    """An episode in which a rule fired."""

    rule: str
    """The rule's alias."""
    number: int
    """Counts from 1 within the rule."""
    step: int
    last_step: int
    is_open: bool
    time_ns: int
    message: str
    suggestion: str
    tensors: tuple[str, ...]
    """Names of tensors, devices or workers."""
    shown_tensors: tuple[str, ...]
    """The first of them."""
    folded_tensors: tuple[str, ...]
    """Those that follow, shown on request."""
    more_tensors: int
    """The number of tensors that are in neither."""
    worker: str | None
    count: int
    """Evaluated steps during which it fired."""
    measured: tuple[tuple[str, str], ...]
    """The evidence, each number with its name and unit: ``("change", "0.3 %")``; without that of other rules."""
    measured_by_rule: tuple[tuple[str, str], ...]
    """The evidence of a rule that evaluates others, by rule."""
    evidence_names: tuple[str, ...]
    """The names of its numbers, some of which are statistics."""
    actions: tuple[LoggedAction, ...]

    @property
    def anchor(self) -> str:
        """HTML id of the finding: ``NAME-3``."""
        return f"{self.rule}-{self.number}"

    @property
    def steps(self) -> str:
        """``step 300``, of a finding that fired again later ``steps 300 to 390``."""
        return describe.steps_of(self.step, self.last_step)


@dataclass(frozen=True, slots=True)
class RuleView:
    """A rule of a run."""

    alias: str
    rule: str
    status: str
    """SageMaker's status; "": not evaluated yet."""
    verdict: str
    """``fired``, ``clear``, ``undecided``, ``not_applicable``, ``error``, or ``waiting``: not evaluated yet."""
    why: str
    sampling: str
    """How often its data was captured, if less often than requested."""
    explained_by: str | None
    severity: Severity
    judged_steps: int | None
    findings: tuple[FindingView, ...]
    settings: tuple[Setting, ...]
    documentation: Documentation | None
    """None: a custom rule."""
    actions: tuple[str, ...]
    """Configured actions of the rule."""

    @property
    def label(self) -> str:
        """The verdict in words."""
        return VERDICTS[self.verdict]

    @property
    def mark(self) -> str:
        """What the badge of the verdict looks like: the verdict, or the severity of a finding that is not fatal."""
        return self.severity if self.verdict == "fired" and self.severity != "fatal" else self.verdict

    @property
    def message(self) -> str:
        """Message of the latest finding, or why there is none, or how often the data was sampled."""
        return self.findings[-1].message if self.findings else self.why or self.sampling


def rule_views(run: Run) -> list[RuleView]:
    """Return every rule, ordered by verdict: fired ones by rank, each cause with its effects, then failed ones …"""
    outcome = outcome_of(run)
    problems, standing = outcome.problems, StandingAdvice.of(outcome.findings_ranked)
    ranked = [rule.name for problem in problems for rule in (problem.cause, *problem.effects)]
    ranks = {name: rank for rank, name in enumerate(ranked)}
    summary = read_rule_summary(run.path) or RuleSummary()
    summaries = {rule.name: rule for rule in summary.rules}
    specs = {spec.alias: spec for spec in run.manifest.rules}
    findings = _findings(run)
    aliases = list(dict.fromkeys([*summaries, *specs, *findings]))
    views = [
        _view(run, alias, specs.get(alias), summaries.get(alias, SummarizedRule()), findings.get(alias, ()), standing)
        for alias in aliases
    ]
    return sorted(views, key=lambda view: (_VERDICT_ORDER.index(view.verdict), ranks.get(view.alias, len(ranks))))


def finding_views(views: list[RuleView]) -> list[FindingView]:
    """Return findings in the order in which they opened; at the same time the cause first."""
    findings = [finding for view in views for finding in view.findings]
    return sorted(findings, key=lambda finding: (finding.step, finding.time_ns))


def _view(
    run: Run,
    alias: str,
    spec: RuleSpec | None,
    summary: SummarizedRule,
    findings: tuple[FindingView, ...],
    standing: StandingAdvice,
) -> RuleView:
    document = read_rule(run.path, alias)
    state = document or summary
    rule = state.rule or (spec.rule if spec else alias)
    documentation = read_documentation(rule)
    parameters = document.parameters if document is not None else {}
    cause = summary.explained_by
    advised = [
        (finding, standing.agreeing(finding.suggestion) if cause is None else summary.suggestion or "")
        for finding in findings
    ]
    return RuleView(
        alias=alias,
        rule=rule,
        status=state.status,
        verdict=_verdict(state),
        why=state.why,
        sampling=state.sampling,
        explained_by=cause,
        severity=state.severity,
        judged_steps=document.judged_steps if document is not None else None,
        findings=tuple(replace(finding, suggestion=suggestion) for finding, suggestion in advised),
        settings=_settings(parameters or (spec.parameters if spec else {}), documentation),
        documentation=documentation,
        actions=tuple(str(action) for action in run.manifest.actions if action.rule in (alias, "*")),
    )


def _verdict(state: SummarizedRule | RuleDocument) -> str:
    known = describe.rule_state(state)
    return "waiting" if known == "undecided" and state.verdict is None else known


def _settings(values: Mapping[str, Any], documentation: Documentation | None) -> tuple[Setting, ...]:
    """Return the given parameters, and for built-in rules also the defaults."""
    documented = documentation.parameters if documentation else ()
    settings = [
        Setting(
            parameter.name,
            _format_value(value := values.get(parameter.name, parameter.default)),
            _is_equal(value, parameter.default),
            parameter.takes,
            parameter.about,
        )
        for parameter in documented
    ]
    names = {parameter.name for parameter in documented}
    return (
        *settings,
        *(Setting(name, _format_value(value), False, "", "") for name, value in values.items() if name not in names),
    )


def _is_equal(value: Any, default: Any) -> bool:
    return bool(value == default or (isinstance(default, tuple) and value == list(default)))


def _findings(run: Run) -> dict[str, tuple[FindingView, ...]]:
    """Return findings by rule."""
    actions: dict[tuple[str, int | None], list[LoggedAction]] = {}
    for entry in read_actions(run.path):
        actions.setdefault((entry.rule, entry.finding), []).append(entry)
    findings_by_rule: dict[str, list[FindingView]] = {}
    for row in run.findings().to_pylist():
        performed = tuple(actions.get((row["rule"], row["step"]), ()))
        findings_by_rule.setdefault(row["rule"], []).append(_finding(row, performed))
    return {
        rule: tuple(sorted(findings, key=lambda finding: finding.number)) for rule, findings in findings_by_rule.items()
    }


def _finding(row: Mapping[str, Any], actions: tuple[LoggedAction, ...]) -> FindingView:
    evidence = json.loads(row["evidence"])
    items = evidence if isinstance(evidence, dict) else {}
    by_rule = {
        rule: numbers for rule, numbers in items.items() if rule in registry.BUILT_IN and isinstance(numbers, dict)
    }
    own = {key: value for key, value in items.items() if key not in by_rule}
    return FindingView(
        rule=row["rule"],
        number=row["id"],
        step=row["step"],
        last_step=row["last_step"],
        is_open=row["is_open"],
        time_ns=row["time_ns"],
        message=row["message"],
        suggestion=row["suggestion"],
        tensors=tuple(row["tensors"]),
        shown_tensors=tuple(row["tensors"][:_MAX_CHIPS]),
        folded_tensors=tuple(row["tensors"][_MAX_CHIPS:MAX_SHOWN_TENSORS]),
        more_tensors=max(0, row["tensor_count"] - len(row["tensors"][:MAX_SHOWN_TENSORS])),
        worker=row["worker"],
        count=row["count"],
        measured=tuple(_measured(key, value, row["tensors"]) for key, value in own.items()),
        measured_by_rule=tuple((rule, _format_value(numbers)) for rule, numbers in by_rule.items()),
        evidence_names=tuple(own),
        actions=actions,
    )


def _format_value(value: Any) -> str:
    """Format a value for display."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return significant(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, (list, tuple)):
        return ", ".join(_format_value(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(" ".join(_measured(key, item)) for key, item in value.items())
    return str(value)


def _measured(key: str, value: Any, names: Collection[str] = ()) -> tuple[str, str]:
    """Return the name of a number, and the number with its unit: ``("before step", "49")``, ``("change", "0.3 %")``.

    Args:
        names: Names of tensors, which stay as they are.
    """
    if key in names:
        return key, _format_value(value)
    text = f"({_format_value(value)})" if isinstance(value, dict) else _format_value(value)
    words = key.split("_")
    unit = _UNITS.get(words[-1], "") if len(words) > 1 else ""
    return " ".join(words[:-1] if unit else words), " ".join(filter(None, (text, unit)))
