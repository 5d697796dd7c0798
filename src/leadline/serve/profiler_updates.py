"""UpdateTrainingJob: changes of the profiling of a job, also while it runs."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import leadline
from leadline.compat.smdebug.profiler_settings import profile_windows
from leadline.config.profile_windows import parse_windows
from leadline.control.requests import ask, interval_request, profile_off_request, remove_rule_request, rule_request
from leadline.errors import LeadlineError
from leadline.reader.run import Run
from leadline.records.request import AddRules, ControlRequest, Profile
from leadline.serve.api_error import invalid
from leadline.serve.job_queue import JobQueue
from leadline.serve.processing_operations import new_evaluation
from leadline.serve.request_check import update_violations
from leadline.serve.run_configuration import ConfiguredRule, resolved
from leadline.serve.sampling import DEFAULT_INTERVAL_MS, INTERVAL, PROFILER, is_disabled
from leadline.serve.service_model import refuse
from leadline.serve.training_job import RULE_ENDED, RuleEvaluation, TrainingJob
from leadline.store import layout
from leadline.store.control import new_request_id, read_requests

_RULES: Final = "ProfilerRuleConfigurations"
_PATH: Final = "S3OutputPath"
_UNSUPPORTED: Final = ("ResourceConfig", "RemoteDebugConfig")
_REASON: Final = "UpdateTrainingJob"
_DISABLED: Final = "the profiler is disabled"
"""The details of a rule that is evaluated when the profiler is enabled."""


def update(queue: JobQueue, job: TrainingJob, request: Mapping[str, Any]) -> None:
    """Change the profiling of a job, and record the change.

    Raises:
        ApiError: The job is not in progress, or cannot be changed in this way.
    """
    _check_state(job, request)
    given = request.get(PROFILER, {})
    entries = request.get(_RULES, [])
    profiler = job.request.get(PROFILER, {}) | given
    changed = job.request | {PROFILER: profiler, _RULES: [*job.request.get(_RULES, []), *entries]}
    path = queue.folder(job).run
    refuse(update_violations(request, [rule.name for rule in job.rules], queue.folder(job).runs))
    try:
        manifest = resolved(changed, path)
        added = [ConfiguredRule(entry, True) for entry in entries]
        if any(rule.source for rule in added):
            raise invalid("A custom rule cannot be added to a training job; give it to CreateTrainingJob.")
        run = leadline.open_run(path) if layout.is_run(path) else None
        if run is None and job.secondary_status == "Training":
            raise invalid("The training is just starting; try again in a few seconds.")
        rules = _enabled(job.rules, run) if not is_disabled(changed) else job.rules
        evaluations = tuple(new_evaluation(job.name, rule, time.time_ns()) for rule in added)
        if run is not None:
            for control in _control_requests(run, job, changed, given, (*rules, *evaluations)):
                ask(run, control)
    except LeadlineError as error:
        raise invalid(str(error)) from None
    rules = (*rules, *evaluations)
    if is_disabled(changed):
        rules = tuple(map(disabled, rules))
    job = replace(job, request=changed, rules=rules)
    queue.write_specification(job, manifest)
    queue.change(job)


def disabled(rule: RuleEvaluation) -> RuleEvaluation:
    """Return a rule of a job whose profiler is disabled."""
    return replace(rule, status="Stopped", details=_DISABLED) if _is_monitoring(rule) else rule


def _enabled(rules: Collection[RuleEvaluation], run: Run | None) -> tuple[RuleEvaluation, ...]:
    """Return the rules of a job whose profiler is enabled; the run does not evaluate a rule that was removed again."""
    used = _used_names(run) if run is not None else set()

    def enabled(rule: RuleEvaluation) -> RuleEvaluation:
        if (rule.status, rule.details) != ("Stopped", _DISABLED):
            return rule
        names = (rule.name, *(f"{rule.name}-{number}" for number in range(2, len(used) + 3)))
        name = next(name for name in names if name not in used)
        return replace(rule, status="InProgress", details="", run_name=name, modified_ns=time.time_ns())

    return tuple(map(enabled, rules))


def _used_names(run: Run) -> set[str]:
    """Return the names of all rules that a run has or had."""
    added = [spec for request in read_requests(run.uri) if isinstance(request, AddRules) for spec in request.rules]
    return {spec.alias for spec in (*run.manifest.rules, *added)}


def _check_state(job: TrainingJob, request: Mapping[str, Any]) -> None:
    if job.status != "InProgress":
        raise invalid(f"The request was rejected because the training job is in status {job.status}.")
    for member in _UNSUPPORTED:
        if member in request:
            raise invalid(f"leadline serve cannot change {member} of a training job")
    before = job.request.get(PROFILER, {}).get(_PATH)
    if before is not None and request.get(PROFILER, {}).get(_PATH, before) != before:
        raise invalid("S3OutputPath of ProfilerConfig cannot be changed")


def _is_monitoring(rule: RuleEvaluation) -> bool:
    return rule.is_profiler_rule and rule.status not in RULE_ENDED


def _control_requests(
    run: Run,
    job: TrainingJob,
    changed: Mapping[str, Any],
    given: Mapping[str, Any],
    rules: Collection[RuleEvaluation],
) -> Iterator[ControlRequest]:
    """Yield what is requested of a running job."""
    was_disabled = is_disabled(job.request)
    if is_disabled(changed):
        if not was_disabled:
            yield interval_request("off", reason=_REASON)
            yield profile_off_request(reason=_REASON)
            for rule in filter(_is_monitoring, job.rules):
                yield remove_rule_request(rule.name_in_run, run, reason=_REASON)
        return
    if was_disabled or INTERVAL in given:
        interval_ms = changed[PROFILER].get(INTERVAL, DEFAULT_INTERVAL_MS)
        yield interval_request(str(interval_ms), reason=_REASON, key=INTERVAL)
    windows = parse_windows(profile_windows(given.get("ProfilingParameters", {})))
    if windows:
        identity = new_request_id()
        named = tuple(replace(window, id=f"{window.id}-{identity[-6:]}") for window in windows)
        yield Profile(id=identity, reason=_REASON, by="user", time_ns=time.time_ns(), windows=named)
    evaluated = _used_names(run)
    entries = {entry["RuleConfigurationName"]: entry for entry in changed[_RULES]}
    for rule in filter(_is_monitoring, rules):
        if rule.name_in_run not in evaluated:
            configured = ConfiguredRule(entries[rule.name], True)
            yield rule_request(replace(configured.specification(), alias=rule.name_in_run), run, reason=_REASON)
