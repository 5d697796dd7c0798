"""UpdateTrainingJob: changes of the profiling of a job, also while it runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import leadline
from leadline.compat.smdebug.profiler_settings import profile_windows
from leadline.config.profile_windows import parse_windows
from leadline.control.requests import ask, interval_request, profile_off_request, remove_rule_request, rule_request
from leadline.errors import LeadlineError
from leadline.reader.run import Run
from leadline.records.request import ControlRequest, Profile
from leadline.serve.api_error import invalid
from leadline.serve.job_queue import JobQueue
from leadline.serve.processing_operations import new_evaluation
from leadline.serve.request_check import update_violations
from leadline.serve.run_configuration import ConfiguredRule, check
from leadline.serve.service_model import refuse
from leadline.serve.training_job import RULE_ENDED, RuleEvaluation, TrainingJob
from leadline.store import layout
from leadline.store.control import new_request_id

_RULES: Final = "ProfilerRuleConfigurations"
_CONFIG: Final = "ProfilerConfig"
_INTERVAL: Final = "ProfilingIntervalInMilliseconds"
_PATH: Final = "S3OutputPath"
_OFF: Final = "DisableProfiler"
_UNSUPPORTED: Final = ("ResourceConfig", "RemoteDebugConfig")
_REASON: Final = "UpdateTrainingJob"


def update(queue: JobQueue, job: TrainingJob, request: Mapping[str, Any]) -> None:
    """Change the profiling of a job, and record the change.

    Raises:
        ApiError: The job is not in progress, or cannot be changed in this way.
    """
    _check_state(job, request)
    given = request.get(_CONFIG, {})
    entries = request.get(_RULES, [])
    profiler = job.request.get(_CONFIG, {}) | given
    changed = job.request | {_CONFIG: profiler, _RULES: [*job.request.get(_RULES, []), *entries]}
    run = queue.folder(job).run
    refuse(update_violations(request, [rule.name for rule in job.rules], queue.folder(job).runs))
    try:
        check(changed, queue.settings.targets, run)
        rules = [ConfiguredRule(entry, True) for entry in entries]
        if any(rule.source for rule in rules):
            raise invalid("A custom rule cannot be added to a training job; give it to CreateTrainingJob.")
        if layout.is_run(run):
            opened = leadline.open_run(run)
            for control in _control_requests(opened, job, given, rules):
                ask(opened, control)
        elif job.secondary_status == "Training":
            raise invalid("The training is just starting; try again in a few seconds.")
    except LeadlineError as error:
        raise invalid(str(error)) from None
    now = time.time_ns()
    evaluations = tuple(
        replace(rule, status="Stopped") if given.get(_OFF) and _is_monitoring(rule) else rule for rule in job.rules
    )
    added = tuple(new_evaluation(job.name, rule, now) for rule in rules)
    job = replace(job, request=changed, rules=(*evaluations, *added))
    queue.write_specification(job)
    queue.change(job)


def _check_state(job: TrainingJob, request: Mapping[str, Any]) -> None:
    if job.status != "InProgress":
        raise invalid(f"The request was rejected because the training job is in status {job.status}.")
    for member in _UNSUPPORTED:
        if member in request:
            raise invalid(f"leadline serve cannot change {member} of a training job")
    before = job.request.get(_CONFIG, {}).get(_PATH)
    if before is not None and request.get(_CONFIG, {}).get(_PATH, before) != before:
        raise invalid("S3OutputPath of ProfilerConfig cannot be changed")


def _is_monitoring(rule: RuleEvaluation) -> bool:
    return rule.is_profiler_rule and rule.status not in RULE_ENDED


def _control_requests(
    run: Run, job: TrainingJob, given: Mapping[str, Any], rules: list[ConfiguredRule]
) -> Iterator[ControlRequest]:
    """Yield what is requested of a running job."""
    if given.get(_OFF):
        yield profile_off_request(reason=_REASON)
        for rule in filter(_is_monitoring, job.rules):
            yield remove_rule_request(rule.name, run, reason=_REASON)
    if _INTERVAL in given:
        yield interval_request(str(given[_INTERVAL]), reason=_REASON, key=_INTERVAL)
    windows = parse_windows(profile_windows(given.get("ProfilingParameters", {})))
    if windows:
        identity = new_request_id()
        named = tuple(replace(window, id=f"{window.id}-{identity[-6:]}") for window in windows)
        yield Profile(id=identity, reason=_REASON, by="user", time_ns=time.time_ns(), windows=named)
    for configured in rules:
        yield rule_request(configured.specification(), run, reason=_REASON)
