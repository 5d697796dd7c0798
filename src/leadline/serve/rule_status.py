"""The statuses of the rules of a job, in AWS's words."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from leadline.records.describe import rule_state
from leadline.records.documents import RuleDocument, SummarizedRule
from leadline.serve.training_job import RULE_ENDED, RuleEvaluation, TrainingJob
from leadline.store import layout
from leadline.store.run_state import read_rule, read_rule_summary

_MAX_DETAILS: Final = 1024
_NO_DATA: Final = "ClientError: No debugging data was saved by the training job."


def current_rules(job: TrainingJob, run: str, now_ns: int) -> tuple[RuleEvaluation, ...]:
    """Return the rules of a job with their current statuses.

    Args:
        run: The run of the job, which need not exist yet.
    """
    if all(rule.status in RULE_ENDED for rule in job.rules):
        return job.rules
    summary = read_rule_summary(run) if layout.is_run(run) else None
    findings = {rule.name: rule for rule in summary.rules} if summary else {}
    return tuple(_current(rule, findings.get(rule.name), job, run, now_ns) for rule in job.rules)


def _current(
    rule: RuleEvaluation, finding: SummarizedRule | None, job: TrainingJob, run: str, now_ns: int
) -> RuleEvaluation:
    if rule.status in RULE_ENDED:
        return rule
    document = read_rule(run, rule.name) if layout.is_run(run) else None
    status, details = _status(rule, document, finding, job)
    if (status, details) == (rule.status, rule.details):
        return rule
    return replace(rule, status=status, details=details[:_MAX_DETAILS], modified_ns=now_ns)


def _status(
    rule: RuleEvaluation, document: RuleDocument | None, finding: SummarizedRule | None, job: TrainingJob
) -> tuple[str, str]:
    """Return status and details of a rule.

    A rule that has found something keeps that status. Others are in progress until the job ends; one that had too
    little data ends with an error: it must not pass for one that has found nothing.
    """
    state = rule_state(document) if document is not None else "undecided"
    if state == "fired" and finding is not None:
        step = finding.step if finding.step is not None else -1
        where = f" at step {step}" if step >= 0 else ""
        condition = f"Evaluation of the rule {rule.kind}{where} resulted in the condition being met"
        return "IssuesFound", f"RuleEvaluationConditionMet: {condition}\n{finding.message or ''}".rstrip()
    if state == "error":
        return "Error", f"InternalServerError: {document.why if document else ''}"
    if not job.has_ended:
        return "InProgress", ""
    if document is not None and document.status == "Stopped":
        return "Stopped", ""
    if state in ("clear", "not_applicable"):
        return "NoIssuesFound", document.why if document is not None and state == "not_applicable" else ""
    if document is None:
        return ("Stopped", "") if job.status == "Stopped" else ("Error", _NO_DATA)
    return "Error", f"ClientError: the rule is undecided: {document.why or 'too little data was saved'}"
