"""Rules as ``smdebug_rulesconfig`` and SageMaker's requests describe them, as the configuration of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NotRequired, TypedDict

from leadline.compat.smdebug.configured_captures import collection_items
from leadline.compat.smdebug.core.json_config import parse_settings
from leadline.compat.smdebug.core.save_config import DEFAULT_INTERVAL
from leadline.compat.smdebug.exceptions import SMDebugTypeError, SMDebugValueError
from leadline.config.parameters import read_parameters
from leadline.config.run_config import RunConfig
from leadline.config.toml_file import from_table
from leadline.records.json_object import JsonObject
from leadline.records.plan import CaptureItem
from leadline.rules.registry import REGISTRY

_NOT_OF_RULE: Final = frozenset({"rule_to_invoke", "action_json", "opt_out_telemetry", "base_trial", "source_s3_uri"})
"""Parameters that say which rule it is or where it runs, or have no counterpart."""
OTHER_TRIAL: Final = re.compile(r"other_trial_\d+")
_SCAN_INTERVAL: Final = "scan_interval_us"
_ACTIONS: Final = {"stoptraining": "stop_training", "email": "notify:$MAIL", "sms": "notify:$SMS"}
"""Leadline's actions by SageMaker's; the variables contain the addresses of mail and SMS."""


def run_config(*configs: object) -> RunConfig:
    """Return the rules, captures and actions of a run: ``to_options()`` gives them as options of ``leadline run``.

    Args:
        configs: What a function of ``smdebug_rulesconfig`` returns, an object of one of its classes of profiler rules,
            or an entry of ``DebugRuleConfigurations`` or ``ProfilerRuleConfigurations``.
    Raises:
        SMDebugTypeError, SMDebugValueError: It is none of these.
        UnknownNameError: There is no such rule or parameter.
        ConfigurationError: A value is not valid for its parameter.
    """
    table: dict[str, JsonObject] = {"rules": {}, "on": {}}
    items: list[CaptureItem] = []
    for config in configs:
        name, parameters, collections = _parts(config)
        rule = str(parameters.get("rule_to_invoke") or name)
        given = read_parameters(REGISTRY.find(rule), rule_parameters(parameters) | _other_trials(parameters))
        table["rules"][name] = {"rule": REGISTRY.canonical(rule), **given}
        actions = _actions(parameters.get("action_json"))
        if actions:
            table["on"][name] = actions
        settings = parse_settings({"CollectionConfigurations": collections}, DEFAULT_INTERVAL)
        steps = settings.hook["save_config"]
        items += [item for entry in settings.collections for item in collection_items(entry, steps, None)]
    checked = from_table({key: value for key, value in table.items() if value}, "rules of SageMaker")
    return replace(checked, capture=tuple(dict.fromkeys(items)))


def _parts(config: object) -> tuple[str, JsonObject, list[Any]]:
    """Return the name of a rule, its parameters, and the collections that it needs."""
    if isinstance(config, Mapping):
        entry = config.get("DebugRuleConfiguration") or config.get("ProfilerRuleConfiguration") or config
        parameters = dict(entry.get("RuleParameters") or {})
        name = entry.get("RuleConfigurationName") or parameters.get("rule_to_invoke")
        if not name:
            raise SMDebugValueError(f"a rule has no RuleConfigurationName: {dict(config)!r}")
        return str(name), parameters, list(config.get("CollectionConfigurations") or ())
    name, given = getattr(config, "rule_name", None), getattr(config, "rule_parameters", None)
    if not isinstance(name, str) or not isinstance(given, Mapping):
        raise SMDebugTypeError(f"a configuration of a rule is expected, not {type(config).__name__}")
    return name, dict(given), []


def rule_parameters(parameters: Mapping[str, Any]) -> JsonObject:
    """Return the parameters of a built-in rule itself: modes as Leadline's rules take them, and no other trials."""
    given = {key: value for key, value in parameters.items() if is_rule_parameter(key)}
    if isinstance(given.get("mode"), str):
        given["mode"] = given["mode"].lower()
    return given


def is_rule_parameter(name: str) -> bool:
    """Return whether a member of ``RuleParameters`` is a parameter of the rule, and not about where it runs."""
    return not (name.endswith(_SCAN_INTERVAL) or name in _NOT_OF_RULE or OTHER_TRIAL.fullmatch(name))


def _other_trials(parameters: Mapping[str, Any]) -> JsonObject:
    others = tuple(str(value) for key, value in parameters.items() if OTHER_TRIAL.fullmatch(key))
    return {"other_trials": others} if others else {}


class GivenAction(TypedDict):
    """An action of ``action_json``."""

    name: str
    parameters: NotRequired[dict[str, str]]


def parse_actions(text: str) -> list[GivenAction]:
    """Parse ``action_json``: one action or a list, in which SDK v2 escapes quotation marks.

    Raises:
        SMDebugValueError: It is neither.
    """
    try:
        value = json.loads(text.replace('\\"', '"'))
    except ValueError:
        raise SMDebugValueError(f"action_json is not valid JSON: {text!r}") from None
    actions = value if isinstance(value, list) else [value]
    if not all(isinstance(action, dict) and isinstance(action.get("name"), str) for action in actions):
        raise SMDebugValueError(f"action_json must be a list of objects with a name: {text!r}")
    return actions


def _actions(text: Any) -> list[str]:
    """Return Leadline's actions of an ``action_json``."""
    if not text:
        return []
    names = [action["name"].lower() for action in parse_actions(str(text))]
    unknown = set(names) - set(_ACTIONS)
    if unknown:
        raise SMDebugValueError(f"no such actions: {', '.join(sorted(unknown))}; there are {', '.join(_ACTIONS)}")
    return [_ACTIONS[name] for name in dict.fromkeys(names)]
