"""The answer of DescribeTrainingJob."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Final

from leadline.config.secrets import scrub_values
from leadline.records.json_object import JsonObject
from leadline.serve.answer import RuleEvaluationStatus, SecondaryTransition, TrainingTimes
from leadline.serve.artifacts import model_uri
from leadline.serve.job_queue import ServerSettings
from leadline.serve.training_job import RuleEvaluation, TrainingJob, seconds

_NOT_ECHOED: Final = frozenset({"Tags", "SessionChainingConfig"})
_GIVEN_TO_SCRIPT: Final = ("HyperParameters", "Environment")
"""What may contain secrets, which a description does not repeat."""
_DAY_SECONDS: Final = 86_400
_RULES: Final = ("DebugRuleConfigurations", "ProfilerRuleConfigurations")


def describe(job: TrainingJob, settings: ServerSettings) -> JsonObject:
    """Describe a job; the result always contains the members that known clients require."""
    request = {name: value for name, value in job.request.items() if name not in _NOT_ECHOED}
    request |= {name: scrub_values(request[name]) for name in _GIVEN_TO_SCRIPT if name in request}
    for member in _RULES:
        request |= {member: [{"VolumeSizeInGB": 0, **rule} for rule in request[member]]} if member in request else {}
    request["OutputDataConfig"] = {"KmsKeyId": "", **request["OutputDataConfig"]}
    request["StoppingCondition"] = {"MaxRuntimeInSeconds": _DAY_SECONDS, **request.get("StoppingCondition", {})}
    request.setdefault("ResourceConfig", {"InstanceCount": 1, "InstanceType": "ml.m5.large", "VolumeSizeInGB": 1})
    request.setdefault("ProfilerConfig", {"DisableProfiler": True})
    is_profiled = not request["ProfilerConfig"].get("DisableProfiler", False)
    return {
        **request,
        "TrainingJobArn": settings.arn("training-job", job.name),
        "ModelArtifacts": {"S3ModelArtifacts": model_uri(job.request, job.name)},
        "TrainingJobStatus": job.status,
        "SecondaryStatus": job.secondary_status,
        "SecondaryStatusTransitions": list(_transitions(job)),
        "CreationTime": seconds(job.created_ns),
        "LastModifiedTime": seconds(job.modified_ns),
        "ProfilingStatus": "Enabled" if is_profiled else "Disabled",
        "DebugRuleEvaluationStatuses": [_rule(rule, settings) for rule in job.rules if not rule.is_profiler_rule],
        "ProfilerRuleEvaluationStatuses": [_rule(rule, settings) for rule in job.rules if rule.is_profiler_rule],
        **_training_time(job),
        **({"FailureReason": job.failure} if job.failure else {}),
    }


def _transitions(job: TrainingJob) -> Iterator[SecondaryTransition]:
    for transition, following in zip_longest(job.transitions, job.transitions[1:]):
        end = following or (transition if job.has_ended else None)
        entry: SecondaryTransition = {
            "Status": transition.status,
            "StartTime": seconds(transition.time_ns),
            "StatusMessage": transition.message,
        }
        if end:
            entry["EndTime"] = seconds(end.time_ns)
        yield entry


def _training_time(job: TrainingJob) -> TrainingTimes:
    started_ns = job.time_ns("Downloading", "Training")
    if started_ns is None:
        return {}
    if not job.has_ended:
        return {"TrainingStartTime": seconds(started_ns)}
    ended_ns = job.transitions[-1].time_ns
    duration = round(seconds(ended_ns - started_ns))
    return {
        "TrainingStartTime": seconds(started_ns),
        "TrainingEndTime": seconds(ended_ns),
        "TrainingTimeInSeconds": max(duration, 1),
        "BillableTimeInSeconds": max(duration, 1),
    }


def _rule(rule: RuleEvaluation, settings: ServerSettings) -> RuleEvaluationStatus:
    status: RuleEvaluationStatus = {
        "RuleConfigurationName": rule.name,
        "RuleEvaluationJobArn": settings.arn("processing-job", rule.processing_job.lower()),
        "RuleEvaluationStatus": rule.status,
        "LastModifiedTime": seconds(rule.modified_ns),
    }
    if rule.details:
        status["StatusDetails"] = rule.details
    return status
