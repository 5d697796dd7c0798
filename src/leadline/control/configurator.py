"""Run options chosen in a form: as a command line, as ``leadline.toml``, and as the resulting capture plan."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from leadline.config.action_options import parse_action
from leadline.config.budget import DEFAULT_BUDGET, parse_budget
from leadline.config.options import parse_capture, parse_rule, parse_spec
from leadline.config.presets import merge, preset_items
from leadline.config.settings import check_interval, check_preset, parse
from leadline.errors import ConfigurationError, UnknownNameError
from leadline.judge.action_resolution import resolve_actions
from leadline.judge.rule_plan import plan as needs_of
from leadline.judge.rule_plan import resolve_rules
from leadline.records.manifest import RuleSpec
from leadline.records.plan import CapturePlan
from leadline.rules.registry import DEFAULT, rule_names

INTERVAL_MS: Final = 500
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class RunChoices:
    """The choices made in a form, in the syntax of the command-line options."""

    preset: str = "standard"
    interval_ms: int = INTERVAL_MS
    budget: str = DEFAULT_BUDGET
    capture: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    """Added to the preset's rules, or replacing one of them with other parameters."""
    without: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    command: tuple[str, ...] = ("train.py",)


def default_rules(preset: str) -> tuple[str, ...]:
    """The rules that are evaluated by default under a preset."""
    return ("profiler_report",) if preset == "sagemaker" else tuple(DEFAULT)


def command_line(choices: RunChoices) -> str:
    """The equivalent command, quoted for a shell."""
    words = ["leadline", "run"]
    words += ["--preset", choices.preset] if choices.preset != "standard" else []
    words += ["--interval-ms", str(choices.interval_ms)] if choices.interval_ms != INTERVAL_MS else []
    words += ["--budget", choices.budget] if choices.budget != DEFAULT_BUDGET else []
    for option, values in (("--capture", choices.capture), ("--rule", choices.rules), ("--on", choices.on)):
        words += [part for value in values for part in (option, value)]
    is_none_left = bool(choices.without) and set(default_rules(choices.preset)) <= set(choices.without)
    words += (
        ["--no-default-rules"] if is_none_left else [word for rule in choices.without for word in ("--no-rule", rule)]
    )
    return shlex.join([*words, *choices.command])


def settings(choices: RunChoices) -> dict[str, Any]:
    """The equivalent content of ``leadline.toml``."""
    captured: dict[str, list[dict[str, str]]] = {}
    for text in choices.capture:
        spec = parse_spec(text, option="capture")
        captured.setdefault(spec.name, []).append(spec.parameters)
    rules = {}
    for text in choices.rules:
        option = parse_rule(text)
        rules[option.alias] = {"rule": option.rule, **option.parameters}
    actions: dict[str, list[str]] = {}
    for text in choices.on:
        trigger, _, action = text.partition("=")
        actions.setdefault(trigger, []).append(action)
    table = {
        "preset": choices.preset,
        "interval_ms": choices.interval_ms,
        "budget": choices.budget,
        "no_rules": list(choices.without),
        "capture": captured,
        "rules": rules,
        "on": actions,
    }
    return {key: value for key, value in table.items() if value not in ({}, [])}


def toml(choices: RunChoices) -> str:
    """The equivalent ``leadline.toml`` as text.

    Raises:
        ConfigurationError: A value is not valid there.
    """
    table = settings(choices)
    parse(table, "leadline.toml")
    lines = [f"{key} = {_toml_value(value)}" for key, value in table.items() if not isinstance(value, dict)]
    for section in ("capture", "rules", "on"):
        entries: Mapping[str, Any] = table.get(section, {})
        if entries:
            lines += ["", f"[{section}]", *(f"{_key(key)} = {_toml_value(value)}" for key, value in entries.items())]
    return "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    """A value in TOML syntax; strings as in JSON, but with DEL escaped, too."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_toml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _toml_value(name)


def check(choices: RunChoices, root: str) -> CapturePlan:
    """Return the capture plan of the choices, with the same checks as ``leadline run``.

    Rules and actions in user files are not looked up here.

    Args:
        root: The runs directory.
    Raises:
        ConfigurationError: A value is invalid.
        UnknownNameError: A name is unknown.
    """
    check_preset(choices.preset, "the preset")
    check_interval(choices.interval_ms, "the interval")
    budget = parse_budget(choices.budget, "the budget")
    captured = tuple(map(parse_capture, choices.capture))
    actions = resolve_actions([parse_action(text) for text in choices.on], targets={})
    resolved = resolve_rules(_specs(choices))
    merged = merge(preset_items(choices.preset), captured, needs_of(resolved, actions), root=root)
    return replace(merged, budget=budget)


def _specs(choices: RunChoices) -> list[RuleSpec]:
    chosen = {name: RuleSpec(name, name) for name in default_rules(choices.preset) if name not in choices.without}
    for text in choices.rules:
        option = parse_rule(text)
        _check_rule_names([option.rule])
        chosen[option.alias] = RuleSpec(option.alias, option.rule, option.parameters, "", "option")
    _check_rule_names(choices.without)
    return list(chosen.values())


def _check_rule_names(names: Iterable[str]) -> None:
    for name in names:
        if name not in rule_names():
            raise UnknownNameError("rule", name, rule_names())


def capture_option(collection: str, given: Mapping[str, str]) -> str:
    """The text of a ``--capture`` option for a collection and its keys.

    Raises:
        ConfigurationError: The option is malformed.
    """
    text = f"{collection}:{','.join(f'{key}={value}' for key, value in given.items())}"
    spec = parse_spec(text, option="capture")
    if spec.name != collection or spec.parameters != dict(given):
        raise ConfigurationError(f"capture {collection}: {text!r} cannot be written as a --capture option")
    parse_capture(text)
    return text
