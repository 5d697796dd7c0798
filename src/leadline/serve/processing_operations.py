"""The operations on processing jobs; there is one for each rule of a training job."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import leadline
from leadline.config.secrets import scrub_values
from leadline.control.requests import ask, remove_rule_request
from leadline.errors import LeadlineError
from leadline.serve.answer import Answer, ProcessingSummary
from leadline.serve.api_error import invalid, missing
from leadline.serve.job_queue import JobQueue
from leadline.serve.listing import Entry, listed
from leadline.serve.run_configuration import ConfiguredRule
from leadline.serve.training_job import RULE_ENDED, RuleEvaluation, TrainingJob, seconds
from leadline.store import layout

_PART: Final = 26
_STATUSES: Final = {"NoIssuesFound": "Completed", "IssuesFound": "Completed", "Error": "Failed"}
"""The status of a processing job by that of its rule, where they differ."""
_MEMBERS: Final = ("DebugRuleConfigurations", "ProfilerRuleConfigurations")
_INSTANCE: Final = {"InstanceCount": 1, "InstanceType": "ml.t3.medium", "VolumeSizeInGB": 1}


def new_evaluation(job: str, rule: ConfiguredRule, now_ns: int) -> RuleEvaluation:
    """Return a rule of a job at its start.

    The name of its processing job is that of AWS: ``<job>-<rule>-<8 hexadecimal digits>``, both cut to 26 characters.
    """
    name = f"{job[:_PART]}-{rule.name[:_PART]}-{secrets.token_hex(4)}"
    return RuleEvaluation(rule.name, rule.kind, name, rule.is_profiler_rule, bool(rule.source), now_ns)


@dataclass(frozen=True, slots=True)
class _Processing:
    """A rule and its job."""

    job: TrainingJob
    rule: RuleEvaluation

    @property
    def status(self) -> str:
        return _STATUSES.get(self.rule.status, self.rule.status)


class ProcessingOperations:
    """DescribeProcessingJob, ListProcessingJobs and StopProcessingJob.

    Each takes a request that is valid according to the model, and returns the answer.

    Raises:
        ApiError: The request cannot be fulfilled.
    """

    def __init__(self, queue: JobQueue) -> None:
        self._queue = queue

    def describe(self, request: Mapping[str, Any]) -> Answer:
        """Describe the processing job of a rule."""
        found = self._find(request["ProcessingJobName"])
        entry = _configuration(found)
        return {
            **self._summary(found),
            "ProcessingResources": {"ClusterConfig": _INSTANCE},
            "AppSpecification": {"ImageUri": entry["RuleEvaluatorImage"]},
            "Environment": scrub_values(entry.get("RuleParameters", {})),
            "RoleArn": found.job.request["RoleArn"],
            "TrainingJobArn": self._queue.settings.arn("training-job", found.job.name),
            **({"ExitMessage": found.rule.details} if found.rule.details else {}),
        }

    def list_(self, request: Mapping[str, Any]) -> Answer:
        """List the processing jobs of the rules of all jobs."""
        entries = [
            Entry(found, found.rule.processing_job, found.job.created_ns, found.rule.modified_ns, found.status)
            for found in self._all()
        ]
        page, token = listed(entries, request)
        return {"ProcessingJobSummaries": [self._summary(found) for found in page], **token}

    def stop(self, request: Mapping[str, Any]) -> None:
        """Stop the evaluation of a rule."""
        found = self._find(request["ProcessingJobName"])
        if found.rule.status in RULE_ENDED:
            raise invalid(f"The request was rejected because the processing job is in status {found.status}.")
        folder = self._queue.folder(found.job)
        if not layout.is_run(folder.run):
            raise invalid("The request was rejected because the training has not started; stop the training job.")
        if found.rule.is_custom:
            folder.request_rule_stop(found.rule.name)
        else:
            _remove_rule(folder.run, found.rule.name_in_run)
        stopped = replace(found.rule, status="Stopped")
        rules = tuple(stopped if rule is found.rule else rule for rule in found.job.rules)
        self._queue.change(replace(found.job, rules=rules))

    def _all(self) -> list[_Processing]:
        return [_Processing(job, rule) for job in self._queue.jobs() for rule in job.rules]

    def _find(self, name: str) -> _Processing:
        """Return a processing job; clients take its name from the ARN, which is in lower case."""
        found = next((found for found in self._all() if found.rule.processing_job.lower() == name.lower()), None)
        if found is None:
            raise missing()
        return found

    def _summary(self, found: _Processing) -> ProcessingSummary:
        rule = found.rule
        summary: ProcessingSummary = {
            "ProcessingJobName": rule.processing_job,
            "ProcessingJobArn": self._queue.settings.arn("processing-job", rule.processing_job.lower()),
            "ProcessingJobStatus": found.status,
            "CreationTime": seconds(found.job.created_ns),
            "LastModifiedTime": seconds(rule.modified_ns),
        }
        if rule.status == "Error":
            summary["FailureReason"] = rule.details
        return summary


def _remove_rule(path: str, name: str) -> None:
    try:
        run = leadline.open_run(path)
        ask(run, remove_rule_request(name, run, reason="StopProcessingJob"))
    except LeadlineError as error:
        raise invalid(str(error)) from None


def _configuration(found: _Processing) -> Mapping[str, Any]:
    member = _MEMBERS[found.rule.is_profiler_rule]
    entries: list[Mapping[str, Any]] = found.job.request[member]
    return next(entry for entry in entries if entry["RuleConfigurationName"] == found.rule.name)
