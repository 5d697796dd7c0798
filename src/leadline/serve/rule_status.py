"""The statuses of the rules of a job, in AWS's words."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from leadline.errors import LeadlineError
from leadline.reader.find_runs import read_manifest
from leadline.records.describe import ENDED_EARLY, rule_state, schedule
from leadline.records.documents import RuleDocument, SummarizedRule
from leadline.records.formatting import listed
from leadline.serve.job_folder import JobFolder
from leadline.serve.training_job import RULE_ENDED, RuleEvaluation, TrainingJob, condition_met
from leadline.store import layout
from leadline.store.run_state import read_rule, read_rule_summary

_MAX_DETAILS: Final = 1024
_NO_DATA: Final = "ClientError: No debugging data was saved by the training job."
_UNDECIDED: Final = "The rule had too little data to decide: "


def current_rules(job: TrainingJob, folder: JobFolder, now_ns: int) -> tuple[RuleEvaluation, ...]:
    """Return the rules of a job with their current statuses; its run need not exist yet."""
    if all(rule.status in RULE_ENDED for rule in job.rules):
        return job.rules
    summary = read_rule_summary(folder.run) if layout.is_run(folder.run) else None
    findings = {rule.name: rule for rule in summary.rules} if summary else {}
    return tuple(_current(rule, findings.get(rule.name_in_run), job, folder, now_ns) for rule in job.rules)


def _current(
    rule: RuleEvaluation, finding: SummarizedRule | None, job: TrainingJob, folder: JobFolder, now_ns: int
) -> RuleEvaluation:
    if rule.status in RULE_ENDED:
        return rule
    if rule.is_custom:
        result = folder.rule_result(rule.name)
        status, details = (result.status, result.details) if result else _without_document(job)
    else:
        document = read_rule(folder.run, rule.name_in_run) if layout.is_run(folder.run) else None
        status, details = _status(rule, document, finding, job, folder)
    if (status, details) == (rule.status, rule.details):
        return rule
    return replace(rule, status=status, details=details[:_MAX_DETAILS], modified_ns=now_ns)


def _without_document(job: TrainingJob) -> tuple[str, str]:
    """Return status and details of a rule that was not evaluated."""
    if not job.has_ended:
        return "InProgress", ""
    return ("Stopped", "") if job.status == "Stopped" else ("Error", _NO_DATA)


def _status(
    rule: RuleEvaluation,
    document: RuleDocument | None,
    finding: SummarizedRule | None,
    job: TrainingJob,
    folder: JobFolder,
) -> tuple[str, str]:
    """Return status and details of a rule.

    A rule that has found something keeps that status; as long as the job runs, only when the summary, which may be
    older than the document, has the finding as well. Others are in progress until the job ends; the details of one
    that could not decide say what it lacked, so that it does not pass for one that is clear.
    """
    if document is None:
        return _without_document(job)
    state = rule_state(document)
    found = finding or SummarizedRule()
    if state == "fired" and (found.findings or job.has_ended):
        return "IssuesFound", f"{condition_met(rule.kind, found.step)}{found.message or ''}"
    if state == "error":
        return "Error", f"InternalServerError: {document.why}"
    if not job.has_ended:
        return "InProgress", ""
    if document.status == "Stopped":
        return "Stopped", ""
    if document.status == "InProgress":
        return "Error", f"InternalServerError: {ENDED_EARLY}"
    if state == "undecided":
        why = document.why or "too little data was saved"
        return "NoIssuesFound", f"{_UNDECIDED}{why}{_saving(folder, rule.name_in_run)}"
    return "NoIssuesFound", document.why if state == "not_applicable" else ""


def _saving(folder: JobFolder, rule: str) -> str:
    """Return when the job is to save what a rule needs, where that is not every step."""
    try:
        items = read_manifest(folder.run).plan.items
    except LeadlineError:  # a damaged manifest costs this part of the sentence
        return ""
    collections: dict[str, list[str]] = {}
    for item in items:
        is_rare = (item.schedule.every or 0) > 1 and item.family is None and "train" in item.modes
        if item.source == f"rule:{rule}" and item.collection is not None and is_rare:
            collections.setdefault(schedule(item.schedule), []).append(item.collection)
    parts = [f"{listed(list(dict.fromkeys(names)))} {when}" for when, names in collections.items()]
    return f"; requested: {'; '.join(parts)}" if parts else ""
