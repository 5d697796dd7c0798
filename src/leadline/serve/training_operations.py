"""The operations on training jobs and tags."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from leadline.errors import LeadlineError
from leadline.records.json_object import JsonObject
from leadline.records.manifest import Manifest
from leadline.serve import rule_messages
from leadline.serve.algorithms.images import check_algorithm
from leadline.serve.answer import Answer, JobSummary
from leadline.serve.api_error import IN_USE, LIMIT, ApiError, invalid, missing
from leadline.serve.job_folder import JobFolder
from leadline.serve.job_queue import JobQueue, ServerSettings, created
from leadline.serve.listing import Entry, listed
from leadline.serve.processing_operations import new_evaluation
from leadline.serve.profiler_updates import disabled, update
from leadline.serve.request_check import job_violations
from leadline.serve.run_configuration import configured_rules, resolved
from leadline.serve.service_model import refuse
from leadline.serve.topics import Topics
from leadline.serve.training_description import describe
from leadline.serve.training_job import TrainingJob, seconds

_MAX_TAGS: Final = 50
_MAX_INSTANCES: Final = 16
_S3: Final = "s3://"


class TrainingOperations:
    """Create-, Describe-, List-, Update-, Stop- and DeleteTrainingJob, AddTags and ListTags.

    Each takes a request that is valid according to the model, and returns the answer.

    Raises:
        ApiError: The request cannot be fulfilled.
    """

    def __init__(self, queue: JobQueue, topics: Topics) -> None:
        self._queue, self._topics = queue, topics

    def create(self, request: JsonObject) -> Answer:
        """Append a job to the queue."""
        name = request["TrainingJobName"]
        if self._queue.find(name) is not None:
            raise ApiError(IN_USE, f"Job name must be unique, and there is already a training job {name}")
        manifest = _check(request, self._queue.settings)
        tags = {tag["Key"]: tag["Value"] for tag in request.pop("Tags", ())}
        now = time.time_ns()
        rules = tuple(
            disabled(evaluation) if rule.is_off(request) else evaluation
            for rule in configured_rules(request)
            for evaluation in (new_evaluation(name, rule, now),)
        )
        rule_messages.subscribe(self._topics, configured_rules(request))
        job = TrainingJob(name, request, (created(now),), now, rules=rules, tags=tags)
        self._queue.add(job, manifest)
        self._queue.advance()
        return {"TrainingJobArn": self._arn(job)}

    def describe(self, request: Mapping[str, Any]) -> Answer:
        """Describe a job."""
        return describe(self._find(request), self._queue.settings)

    def list_(self, request: Mapping[str, Any]) -> Answer:
        """List jobs."""
        jobs = self._queue.jobs()
        entries = [Entry(job, job.name, job.created_ns, job.modified_ns, job.status) for job in jobs]
        page, token = listed(entries, request)
        return {"TrainingJobSummaries": [self._summary(job) for job in page], **token}

    def update(self, request: Mapping[str, Any]) -> Answer:
        """Change the profiling of a job."""
        job = self._find(request)
        update(self._queue, job, request)
        return {"TrainingJobArn": self._arn(job)}

    def stop(self, request: Mapping[str, Any]) -> None:
        """Stop a job."""
        job = self._find(request)
        if job.has_ended:
            raise invalid(f"The request was rejected because the training job is in status {job.status}.")
        self._queue.stop(job)

    def delete(self, request: Mapping[str, Any]) -> None:
        """Delete a job that has ended."""
        job = self._find(request)
        if not job.has_ended:
            raise ApiError(IN_USE, f"The training job is in status {job.status}; stop it first")
        self._queue.delete(job)

    def add_tags(self, request: Mapping[str, Any]) -> Answer:
        """Add tags to a job."""
        job = self._resource(request["ResourceArn"])
        tags = job.tags | {tag["Key"]: tag["Value"] for tag in request["Tags"]}
        if len(tags) > _MAX_TAGS:
            raise invalid(f"a resource can have at most {_MAX_TAGS} tags")
        self._queue.change(replace(job, tags=tags))
        return {"Tags": _tag_list(tags)}

    def list_tags(self, request: Mapping[str, Any]) -> Answer:
        """List the tags of a job."""
        return {"Tags": _tag_list(self._resource(request["ResourceArn"]).tags)}

    def _find(self, request: Mapping[str, Any]) -> TrainingJob:
        job = self._queue.find(request["TrainingJobName"])
        if job is None:
            raise missing()
        return job

    def _resource(self, arn: str) -> TrainingJob:
        job = next((job for job in self._queue.jobs() if self._arn(job) == arn), None)
        if job is None:
            raise missing()
        return job

    def _arn(self, job: TrainingJob) -> str:
        return self._queue.settings.arn("training-job", job.name)

    def _summary(self, job: TrainingJob) -> JobSummary:
        ended_ns = job.transitions[-1].time_ns if job.has_ended else None
        summary: JobSummary = {
            "TrainingJobName": job.name,
            "TrainingJobArn": self._arn(job),
            "CreationTime": seconds(job.created_ns),
            "LastModifiedTime": seconds(job.modified_ns),
            "TrainingJobStatus": job.status,
            "SecondaryStatus": job.secondary_status,
        }
        if ended_ns is not None:
            summary["TrainingEndTime"] = seconds(ended_ns)
        return summary


def _tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _check(request: Mapping[str, Any], settings: ServerSettings) -> Manifest:
    """Refuse a job that cannot run here; return the manifest of its run.

    Raises:
        ApiError: It needs what there is not, or its program, rules or collections are invalid.
    """
    folder = JobFolder(settings.folder, request["TrainingJobName"])
    refuse(job_violations(request, folder.runs))
    resources = request.get("ResourceConfig", {})
    if "InstanceGroups" in resources:
        raise ApiError(LIMIT, "leadline serve has no instance groups: give InstanceCount")
    if resources.get("InstanceCount", 1) > _MAX_INSTANCES:
        raise ApiError(LIMIT, f"leadline serve runs all instances on one machine: at most {_MAX_INSTANCES}")
    for member in ("OutputDataConfig", "DebugHookConfig", "ProfilerConfig", "TensorBoardOutputConfig"):
        path = request.get(member, {}).get("S3OutputPath", _S3)
        if not path.startswith(_S3):
            raise invalid(f"{member}.S3OutputPath must begin with {_S3}, not {path!r}")
    for channel in request.get("InputDataConfig", ()):
        source = channel["DataSource"].get("S3DataSource", {})
        if source.get("S3DataType") != "S3Prefix" or not source["S3Uri"].startswith(_S3):
            raise invalid(f"channel {channel['ChannelName']}: only an S3DataSource with an S3Prefix is supported")
    try:
        check_algorithm(request)
        return resolved(request, folder.run)
    except LeadlineError as error:
        raise invalid(str(error)) from None
