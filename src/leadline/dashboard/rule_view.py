"""What the rules of a run came to, in the order and the words of a page."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from leadline.reader.run import Run
from leadline.records.manifest import RuleSpec
from leadline.rules.documentation import Documentation, read_documentation
from leadline.store import layout
from leadline.store.actions import read_actions
from leadline.store.documents import read_document

_VERDICT_ORDER: Final = ("fired", "error", "undecided", "clear", "waiting")


@dataclass(frozen=True, slots=True)
class Setting:
    """A parameter of a rule as it is set in a run."""

    name: str
    value: str
    is_default: bool
    takes: str
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
    more_tensors: int
    """Those that are counted only."""
    worker: str | None
    count: int
    """Judged steps that it lasted."""
    evidence: tuple[tuple[str, str], ...]
    actions: tuple[Mapping[str, Any], ...]

    @property
    def anchor(self) -> str:
        """Its place in the page: ``NAME-3``."""
        return f"{self.rule}-{self.number}"


@dataclass(frozen=True, slots=True)
class RuleView:
    """A rule of a run."""

    alias: str
    rule: str
    status: str
    """As SageMaker names it; "": nobody judges yet."""
    verdict: str
    """``fired``, ``clear``, ``undecided``, ``error``, or ``waiting``: nothing was judged yet."""
    why: str
    explained_by: str | None
    judged_steps: int | None
    findings: tuple[FindingView, ...]
    settings: tuple[Setting, ...]
    documentation: Documentation | None
    """None: a rule of somebody's own."""
    actions: tuple[str, ...]
    """What follows when it fires, as it was asked for."""

    @property
    def message(self) -> str:
        """The latest that it found, or why there is none."""
        return self.findings[-1].message if self.findings else self.why


def rule_views(run: Run) -> list[RuleView]:
    """Every rule: what fired first, the cause before what follows from it; then what is undecided, then the rest."""
    summary = read_document(os.path.join(run.path, layout.RULE_SUMMARY)) or {}
    told = {str(each.get("name")): each for each in summary.get("rules", []) if isinstance(each, dict)}
    specs = {each.alias: each for each in run.manifest.rules}
    found = _findings(run)
    aliases = list(dict.fromkeys([*told, *specs, *found]))
    views = [_view(run, alias, specs.get(alias), told.get(alias, {}), found.get(alias, ())) for alias in aliases]
    return sorted(views, key=lambda each: (_VERDICT_ORDER.index(each.verdict), each.explained_by is not None))


def finding_views(views: list[RuleView]) -> list[FindingView]:
    """Findings in the order in which they opened; of one moment that of the cause first."""
    found = [each for view in views for each in view.findings]
    return sorted(found, key=lambda each: (each.step, each.time_ns))


def _view(
    run: Run, alias: str, spec: RuleSpec | None, told: Mapping[str, Any], found: tuple[FindingView, ...]
) -> RuleView:
    status = read_document(os.path.join(run.path, layout.rule_status(alias)))
    status = {**told, **(status if isinstance(status, dict) else {})}
    rule = str(status.get("rule") or (spec.rule if spec else alias))
    documentation = read_documentation(rule)
    given = status.get("parameters") or (spec.parameters if spec else {})
    return RuleView(
        alias=alias,
        rule=rule,
        status=str(status.get("status") or ""),
        verdict=_verdict(status),
        why=str(status.get("why") or ""),
        explained_by=told.get("explained_by"),
        judged_steps=status.get("judged_steps"),
        findings=found,
        settings=_settings(given, documentation),
        documentation=documentation,
        actions=tuple(str(each) for each in run.manifest.actions if each.rule in (alias, "*")),
    )


def _verdict(status: Mapping[str, Any]) -> str:
    if status.get("status") == "Error":
        return "error"
    verdict = str(status.get("verdict") or "waiting")
    return verdict if verdict in _VERDICT_ORDER else "waiting"


def _settings(given: Mapping[str, Any], documentation: Documentation | None) -> tuple[Setting, ...]:
    """What was given, and of built-in rules also what was not."""
    known = documentation.parameters if documentation else ()
    settings = [
        Setting(
            each.name,
            _spoken(value := given.get(each.name, each.default)),
            _same(value, each.default),
            each.takes,
            each.about,
        )
        for each in known
    ]
    names = {each.name for each in known}
    return (
        *settings,
        *(Setting(name, _spoken(value), False, "", "") for name, value in given.items() if name not in names),
    )


def _same(value: Any, default: Any) -> bool:
    return bool(value == default or (isinstance(default, tuple) and value == list(default)))


def _findings(run: Run) -> dict[str, tuple[FindingView, ...]]:
    """Findings by rule."""
    deeds: dict[tuple[str, Any], list[Mapping[str, Any]]] = {}
    for each in read_actions(run.path):
        deeds.setdefault((str(each["rule"]), each.get("finding")), []).append(each)
    found: dict[str, list[FindingView]] = {}
    for row in run.findings().to_pylist():
        done = tuple(deeds.get((row["rule"], row["step"]), ()))
        found.setdefault(row["rule"], []).append(_finding(row, done))
    return {rule: tuple(sorted(each, key=lambda one: one.number)) for rule, each in found.items()}


def _finding(row: Mapping[str, Any], done: tuple[Mapping[str, Any], ...]) -> FindingView:
    evidence = json.loads(row["evidence"])
    told = evidence if isinstance(evidence, dict) else {}
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
        more_tensors=max(0, row["tensor_count"] - len(row["tensors"])),
        worker=row["worker"],
        count=row["count"],
        evidence=tuple((str(key), _spoken(value)) for key, value in told.items()),
        actions=done,
    )


def _spoken(value: Any) -> str:
    """A value as people read it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, (list, tuple)):
        return ", ".join(_spoken(each) for each in value)
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_spoken(each)}" for key, each in value.items())
    return str(value)
