"""The configuration of the run of a job, from the debugger's members of a request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from leadline.compat.smdebug.configured_captures import collection_items
from leadline.compat.smdebug.core.json_config import CollectionSettings, parse_settings
from leadline.compat.smdebug.core.reduction_config import ReductionConfig
from leadline.compat.smdebug.core.save_config import DEFAULT_INTERVAL
from leadline.compat.smdebug.exceptions import SMDebugError
from leadline.compat.smdebug.profiler_settings import profile_windows
from leadline.compat.smdebug.rule_configs import (
    OTHER_TRIAL,
    GivenAction,
    is_rule_parameter,
    parse_actions,
    rule_parameters,
)
from leadline.config.options import ActionEntry
from leadline.config.run_config import RunConfig
from leadline.errors import ConfigurationError
from leadline.launch.resolve import resolve
from leadline.records.manifest import Manifest, RuleSpec
from leadline.records.names import JOB
from leadline.records.plan import CaptureItem
from leadline.rules.registry import canonical
from leadline.serve.sampling import INTERVAL, PROFILER, is_disabled

SOURCE: Final = "source_s3_uri"
CLASS: Final = "rule_to_invoke"
ACTIONS: Final = "action_json"
ADDRESS: Final = "{address}"
"""Stands for the recipient in a target of ``notify``."""
_TRIAL_OF_JOB: Final = re.compile(r"s3://.*/([^/]+)/debug-output/?")
_NAME: Final = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_S3: Final = "s3://"
_STOP: Final = "stoptraining"
_OPTION: Final = "option"
_ALWAYS: Final = ("losses", "metrics")
"""The collections that a hook saves without being told, as often as it saves others."""


@dataclass(frozen=True, slots=True)
class ConfiguredRule:
    """An entry of DebugRuleConfigurations or ProfilerRuleConfigurations.

    Raises:
        ConfigurationError: It names no rule, or its name or actions are invalid.
    """

    entry: Mapping[str, Any]
    is_profiler_rule: bool

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name == JOB:
            raise ConfigurationError(
                f"the name of a rule consists of letters, digits, '_' and '-', and begins with a letter: {self.name!r}"
            )
        if CLASS not in self._given:
            raise ConfigurationError(f"RuleParameters of {self.name} lack {CLASS}, the class of the rule")
        if self.source is not None and not self.source.startswith(_S3):
            raise ConfigurationError(f"RuleParameters of {self.name}: {SOURCE} must begin with {_S3}: {self.source!r}")
        try:
            parse_actions(self._given.get(ACTIONS, "[]"))
        except SMDebugError as error:
            raise ConfigurationError(f"RuleParameters of {self.name}: {error}") from None

    @property
    def _given(self) -> Mapping[str, str]:
        parameters: Mapping[str, str] = self.entry.get("RuleParameters", {})
        return parameters

    @property
    def name(self) -> str:
        """Its name in the job and in the run."""
        return str(self.entry["RuleConfigurationName"])

    @property
    def kind(self) -> str:
        """The name of its class."""
        return self._given[CLASS]

    @property
    def source(self) -> str | None:
        """The URI of the file with the class of a custom rule; None: the rule is built in."""
        return self._given.get(SOURCE)

    @property
    def actions(self) -> list[GivenAction]:
        """The actions that follow a finding."""
        return parse_actions(self._given.get(ACTIONS, "[]"))

    @property
    def stops_training(self) -> bool:
        """Whether one of its actions stops the training."""
        return any(action["name"].lower() == _STOP for action in self.actions)

    def is_off(self, request: Mapping[str, Any]) -> bool:
        """Whether it is a profiler rule of a job without profiling."""
        return self.is_profiler_rule and is_disabled(request)

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of its class, as texts."""
        return {name: value for name, value in self._given.items() if is_rule_parameter(name)}

    @property
    def other_jobs(self) -> list[str]:
        """The jobs that it compares with."""
        trials = [value for name, value in sorted(self._given.items()) if OTHER_TRIAL.fullmatch(name)]
        return [job_of_trial(uri) or uri for uri in trials]

    def specification(self) -> RuleSpec:
        """Return a built-in rule for the run."""
        others = {"other_trials": ",".join(self.other_jobs)} if self.other_jobs else {}
        return RuleSpec(self.name, canonical(self.kind), rule_parameters(self._given) | others, "", _OPTION)


def job_of_trial(uri: str) -> str | None:
    """Return the name of the job whose tensors are at a URI; None: it is not where a job has them."""
    match = _TRIAL_OF_JOB.fullmatch(uri)
    return match[1] if match else None


def configured_rules(request: Mapping[str, Any]) -> list[ConfiguredRule]:
    """Return the rules of a request.

    Raises:
        ConfigurationError: One is invalid, or two have the same name.
    """
    rules = [
        ConfiguredRule(entry, member == "ProfilerRuleConfigurations")
        for member in ("DebugRuleConfigurations", "ProfilerRuleConfigurations")
        for entry in request.get(member, ())
    ]
    names = [rule.name for rule in rules]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ConfigurationError(f"two rules are named {repeated!r}; give one another RuleConfigurationName")
    return rules


def run_config(request: Mapping[str, Any]) -> RunConfig:
    """Return the configuration of the run of a job, without custom rules, and without profiler rules that are off.

    Raises:
        ConfigurationError: A part of the request is invalid.
    """
    rules = [rule for rule in configured_rules(request) if not rule.source and not rule.is_off(request)]
    profiler = request.get(PROFILER, {})
    return RunConfig(
        preset="sagemaker",
        default_rules=False,
        report=False,  # the job process renders it where clients expect it
        interval_ms=profiler.get(INTERVAL),
        capture=capture_items(request.get("DebugHookConfig")),
        rules=tuple(rule.specification() for rule in rules),
        on=tuple(ActionEntry(rule.name, "", "stop_training") for rule in rules if rule.stops_training),
        profile=() if is_disabled(request) else tuple(profile_windows(profiler.get("ProfilingParameters", {}))),
    )


def resolved(request: Mapping[str, Any], run: str) -> Manifest:
    """Return the manifest of the run of a job: what its process hands over to ``leadline run``.

    Rules, collections and profile windows are checked, except custom rules, whose files are not here yet.

    Args:
        run: The run directory of the job, beside those of the jobs that rules compare with.
    Raises:
        LeadlineError: One is invalid, or a rule compares with a job that there is not.
    """
    return resolve(run_config(request), run)


def other_actions(request: Mapping[str, Any], targets: Iterable[str]) -> list[str]:
    """Return the actions of the rules that are not performed, as ``RULE: NAME``.

    Args:
        targets: The actions beside StopTraining that the server can perform.
    """
    pairs = [(rule, action["name"]) for rule in configured_rules(request) for action in rule.actions]
    performed = {_STOP, *targets}
    return [f"{rule.name}: {name}" for rule, name in pairs if name.lower() not in performed]


def capture_items(hook: Mapping[str, Any] | None) -> tuple[CaptureItem, ...]:
    """Return what DebugHookConfig saves, also where the script has no hook of smdebug.

    Of a collection that is listed several times, as SDK v2 lists those of rules in no order, the steps of all entries
    are captured.

    Raises:
        ConfigurationError: It is invalid.
    """
    if hook is None:
        return ()
    try:
        settings = parse_settings(hook, DEFAULT_INTERVAL)
    except SMDebugError as error:
        raise ConfigurationError(f"DebugHookConfig: {error}") from None
    steps = settings.hook["save_config"]
    reductions = settings.hook["reduction_config"] or ReductionConfig(save_raw_tensor=True)
    named = {entry.name for entry in settings.collections}
    listed = [*(CollectionSettings(name) for name in _ALWAYS if name not in named), *settings.collections]
    if settings.hook["save_all"]:
        listed.append(CollectionSettings("all"))
    if settings.hook["include_regex"]:
        listed.append(CollectionSettings("included", tuple(settings.hook["include_regex"])))
    return tuple(dict.fromkeys(item for entry in listed for item in collection_items(entry, steps, reductions)))


def unselected_collections(request: Mapping[str, Any]) -> list[str]:
    """Return the collections of a request that select nothing themselves: a script may add tensors to them."""
    settings = parse_settings(request.get("DebugHookConfig", {}), DEFAULT_INTERVAL)
    steps = settings.hook["save_config"]
    return [entry.name for entry in settings.collections if next(collection_items(entry, steps, None), None) is None]
