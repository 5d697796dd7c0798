"""What a request of a training job must satisfy beside botocore's model of the service."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from leadline.compat.smdebug.core.json_config import COLLECTION_PARAMETERS, HOOK_PARAMETERS, parse_settings
from leadline.compat.smdebug.core.save_config import DEFAULT_INTERVAL
from leadline.compat.smdebug.exceptions import SMDebugError
from leadline.compat.smdebug.profiler_settings import PARAMETERS, check_table, profile_windows
from leadline.compat.smdebug.rule_configs import OTHER_TRIAL, parse_actions
from leadline.config.profile_windows import parse_windows
from leadline.errors import ConfigurationError, LeadlineError, UnknownNameError, closest
from leadline.judge.rule_plan import resolve_rule
from leadline.records.metric import INTERVALS_MS
from leadline.rules.registry import BUILT_IN, canonical
from leadline.serve.run_configuration import ACTIONS, CLASS, ConfiguredRule, job_of_trial
from leadline.serve.sampling import INTERVAL
from leadline.serve.service_model import broken
from leadline.store import layout

_UNIQUE: Final = "Member must be unique"
_WORKERS: Final = ("one", "all")
_ACTIONS: Final = {"stoptraining": "", "email": "endpoint", "sms": "endpoint"}
"""What an action needs beside its name."""
_OF_SYSTEM: Final = "leadline.rules.system."
_DEBUG, _PROFILER = "debugRuleConfigurations", "profilerRuleConfigurations"


def job_violations(request: Mapping[str, Any], runs: str) -> Iterator[str]:
    """Yield what is wrong with a request of CreateTrainingJob, in the words of AWS.

    Args:
        runs: The runs directory of the jobs that rules compare with.
    """
    count = request.get("ResourceConfig", {}).get("InstanceCount", 1)
    if count < 1:
        constraint = "Member must have value greater than or equal to 1"
        yield broken(count, "resourceConfig.instanceCount", constraint)
    yield from _repeated(request.get("InputDataConfig", ()), "ChannelName", "inputDataConfig", "channelName")
    yield from _repeated(request.get("Tags", ()), "Key", "tags", "key")
    yield from _of_spot(request)
    yield from _of_hook(request.get("DebugHookConfig") or {})
    yield from profiler_violations(request.get("ProfilerConfig", {}))
    rules = [(entry, _DEBUG, number) for number, entry in _numbered(request.get("DebugRuleConfigurations", ()))]
    rules += [(entry, _PROFILER, number) for number, entry in _numbered(request.get("ProfilerRuleConfigurations", ()))]
    yield from _of_rules(rules, (), runs)


def update_violations(request: Mapping[str, Any], known: Iterable[str], runs: str) -> Iterator[str]:
    """Yield what is wrong with a request of UpdateTrainingJob.

    Args:
        known: The names of the rules that the job has.
        runs: As for ``job_violations``.
    """
    yield from profiler_violations(request.get("ProfilerConfig", {}))
    rules = [(entry, _PROFILER, number) for number, entry in _numbered(request.get("ProfilerRuleConfigurations", ()))]
    yield from _of_rules(rules, known, runs)


def _numbered(entries: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """Number entries as the paths of AWS do, from 1."""
    return enumerate(entries, 1)


def _repeated(entries: Iterable[Mapping[str, str]], key: str, path: str, member: str) -> Iterator[str]:
    seen: set[str] = set()
    for number, entry in _numbered(entries):
        if entry[key] in seen:
            yield broken(entry[key], f"{path}.{number}.member.{member}", _UNIQUE)
        seen.add(entry[key])


def _of_spot(request: Mapping[str, Any]) -> Iterator[str]:
    limits = request.get("StoppingCondition", {})
    least, most = limits.get("MaxRuntimeInSeconds"), limits.get("MaxWaitTimeInSeconds")
    if request.get("EnableManagedSpotTraining") and most is not None and least is not None and most < least:
        constraint = "Member must have value greater than or equal to MaxRuntimeInSeconds"
        yield broken(most, "stoppingCondition.maxWaitTimeInSeconds", constraint)


def _of_hook(hook: Mapping[str, Any]) -> Iterator[str]:
    given, path = hook.get("HookParameters", {}), "debugHookConfig.hookParameters"
    yield from _unknown_keys(given, HOOK_PARAMETERS, path)
    yield from _unreadable({"HookParameters": given}, given, path)
    workers = given.get("include_workers", _WORKERS[0])
    if workers not in _WORKERS:
        yield broken(workers, f"{path}.include_workers.member", _one_of(_WORKERS))
    for number, entry in _numbered(hook.get("CollectionConfigurations", ())):
        given, path = entry.get("CollectionParameters", {}), f"debugHookConfig.collectionConfigurations.{number}.member"
        yield from _unknown_keys(given, COLLECTION_PARAMETERS, f"{path}.collectionParameters")
        yield from _unreadable({"CollectionConfigurations": [entry]}, given, f"{path}.collectionParameters")


def _unreadable(part: Mapping[str, Any], given: Mapping[str, str], path: str) -> Iterator[str]:
    """Yield why a part of DebugHookConfig is no configuration of a hook."""
    try:
        parse_settings(part, DEFAULT_INTERVAL)
    except SMDebugError as error:
        yield broken(given, path, str(error))


def _unknown_keys(given: Iterable[str], known: Iterable[str], path: str) -> Iterator[str]:
    known = sorted(known)
    for key in given:
        if key not in known:
            match = closest(key, known)
            constraint = f"did you mean {match}?" if match else _one_of(known)
            yield broken(key, path, f"there is no such parameter: {constraint}")


def _one_of(values: Iterable[object]) -> str:
    return f"Member must satisfy enum value set: [{', '.join(map(str, values))}]"


def profiler_violations(profiler: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with ProfilerConfig."""
    interval = profiler.get(INTERVAL)
    if interval is not None and interval not in INTERVALS_MS:
        yield broken(interval, "profilerConfig.profilingIntervalInMilliseconds", _one_of(INTERVALS_MS))
    path = "profilerConfig.profilingParameters"
    names = {name.lower(): name for name in PARAMETERS}
    for key, value in profiler.get("ProfilingParameters", {}).items():
        if key.lower() not in names:
            yield from _unknown_keys([key], PARAMETERS, path)
            continue
        try:
            check_table(key, value)
            parse_windows(profile_windows({key: value}))
        except ConfigurationError as error:
            yield broken(value, f"{path}.{key}.member", str(error))


def _of_rules(rules: Iterable[tuple[Mapping[str, Any], str, int]], known: Iterable[str], runs: str) -> Iterator[str]:
    names = set(known)
    for entry, member, number in rules:
        path, name = f"{member}.{number}.member", str(entry["RuleConfigurationName"])
        if name in names:
            yield broken(name, f"{path}.ruleConfigurationName", _UNIQUE)
        names.add(name)
        yield from _of_rule(entry, path, runs, is_profiler_rule=member == _PROFILER)


def _of_rule(entry: Mapping[str, Any], path: str, runs: str, *, is_profiler_rule: bool) -> Iterator[str]:
    """Yield what is wrong with a rule, up to the first that keeps the rest from being read."""
    given: Mapping[str, str] = entry.get("RuleParameters", {})
    parameters = f"{path}.ruleParameters"
    if CLASS not in given:
        yield broken(None, f"{parameters}.{CLASS}.member", "Member must not be null")
        return
    wrong = list(_of_actions(given[ACTIONS], f"{parameters}.{ACTIONS}.member")) if ACTIONS in given else []
    wrong += _of_other_trials(given, parameters, runs)
    if wrong:
        yield from wrong
        return
    kind = given[CLASS]
    try:
        rule = ConfiguredRule(entry, is_profiler_rule)
    except ConfigurationError as error:
        yield broken(entry["RuleConfigurationName"], path, str(error))
        return
    if rule.source is not None:
        return
    if is_profiler_rule and not BUILT_IN.get(canonical(kind), _OF_SYSTEM).startswith(_OF_SYSTEM):
        yield broken(kind, f"{parameters}.{CLASS}.member", "it is a rule of DebugRuleConfigurations")
        return
    try:
        resolve_rule(rule.specification())
    except UnknownNameError as error:
        is_kind = error.name in (kind, canonical(kind))
        yield broken(error.name, f"{parameters}.{CLASS}.member" if is_kind else parameters, _unknown(error))
    except LeadlineError as error:
        yield broken(rule.parameters, parameters, str(error))


def _of_other_trials(given: Mapping[str, str], path: str, runs: str) -> Iterator[str]:
    for key, uri in given.items():
        job = job_of_trial(uri) if OTHER_TRIAL.fullmatch(key) else None
        if job is not None and not layout.is_run(os.path.join(runs, job)):
            yield broken(uri, f"{path}.{key}.member", f"there is no training job {job}")


def _unknown(error: UnknownNameError) -> str:
    match = closest(error.name, error.known)
    return f"there is no such {error.kind}" + (f"; did you mean {match}?" if match else "")


def _of_actions(text: str, path: str) -> Iterator[str]:
    try:
        actions = parse_actions(text)
    except SMDebugError as error:
        yield broken(text, path, str(error))
        return
    for action in actions:
        name = action["name"].lower()
        if name not in _ACTIONS:
            yield broken(action["name"], path, f"the name of an action is one of {', '.join(_ACTIONS)}")
        elif _ACTIONS[name] and not action.get(_ACTIONS[name]):
            yield broken(text, path, f"the action {name} needs an {_ACTIONS[name]}")
