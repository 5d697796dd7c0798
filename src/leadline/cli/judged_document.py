"""What ``leadline judge --json`` prints."""

from __future__ import annotations

import os
from typing import TypedDict

from leadline.analysis.overview import format_finding
from leadline.analysis.overview_document import FindingDocument
from leadline.judge.causes import FiredRule, causes
from leadline.judge.engines.engine import Judged
from leadline.judge.rule_entry import RuleResult
from leadline.reader import liveness
from leadline.records.json_object import JsonObject


class JudgedRule(TypedDict):
    """A rule in what ``leadline judge --json`` prints."""

    name: str
    rule: str
    parameters: JsonObject
    status: str
    verdict: str | None
    why: str
    sampling: str
    explained_by: str | None
    judged_steps: int
    findings: list[FindingDocument]


class JudgedDocument(TypedDict):
    """A run in what ``leadline judge --json`` prints."""

    name: str
    uri: str
    problem: str | None
    """Why it cannot be judged."""
    is_running: bool
    damage: list[str]
    rules: list[JudgedRule]


def judged_document(judged: Judged) -> JudgedDocument:
    """Return the results of the rules of a run as plain JSON values."""
    explained = root_causes(judged)
    return {
        "name": os.path.basename(judged.run),
        "uri": judged.run,
        "problem": judged.problem or None,
        "is_running": not judged.problem and not liveness.is_over(judged.run),
        "damage": list(judged.damage),
        "rules": [_rule(rule, explained.get(rule.name)) for rule in judged.rules],
    }


def _rule(result: RuleResult, cause: str | None) -> JudgedRule:
    return {
        "name": result.name,
        "rule": result.rule,
        "parameters": dict(result.parameters),
        "status": result.status,
        "verdict": result.verdict,
        "why": result.why,
        "sampling": result.sampling,
        "explained_by": cause,
        "judged_steps": result.judged_steps,
        "findings": [format_finding(finding) for finding in result.findings],
    }


def root_causes(judged: Judged) -> dict[str, str]:
    """Return the root cause of each rule whose findings follow from those of another one."""
    return causes(
        FiredRule(rule.name, rule.rule, rule.findings, rule.explains) for rule in judged.rules if rule.findings
    )
