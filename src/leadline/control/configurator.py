"""A configuration chosen in a form: as a command line, as ``leadline.toml``, and as the plan that both mean."""

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
    """What somebody chose, in the words of the options."""

    preset: str = "standard"
    interval_ms: int = INTERVAL_MS
    budget: str = DEFAULT_BUDGET
    capture: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    """Beside the preset's, or with parameters of their own."""
    without: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    command: tuple[str, ...] = ("train.py",)


def default_rules(preset: str) -> tuple[str, ...]:
    """The rules that judge under a preset unless told otherwise."""
    return ("profiler_report",) if preset == "sagemaker" else tuple(DEFAULT)


def command_line(wish: RunChoices) -> str:
    """What to type, quoted for a shell."""
    words = ["leadline", "run"]
    words += ["--preset", wish.preset] if wish.preset != "standard" else []
    words += ["--interval-ms", str(wish.interval_ms)] if wish.interval_ms != INTERVAL_MS else []
    words += ["--budget", wish.budget] if wish.budget != DEFAULT_BUDGET else []
    for option, values in (("--capture", wish.capture), ("--rule", wish.rules), ("--on", wish.on)):
        words += [part for value in values for part in (option, value)]
    is_none_left = bool(wish.without) and set(default_rules(wish.preset)) <= set(wish.without)
    words += ["--no-default-rules"] if is_none_left else [p for each in wish.without for p in ("--no-rule", each)]
    return shlex.join([*words, *wish.command])


def settings(wish: RunChoices) -> dict[str, Any]:
    """The same as ``leadline.toml`` has it."""
    captured: dict[str, list[dict[str, str]]] = {}
    for text in wish.capture:
        spec = parse_spec(text, option="capture")
        captured.setdefault(spec.name, []).append(spec.parameters)
    rules = {}
    for text in wish.rules:
        option = parse_rule(text)
        rules[option.alias] = {"rule": option.rule, **option.parameters}
    followed: dict[str, list[str]] = {}
    for text in wish.on:
        occasion, _, deed = text.partition("=")
        followed.setdefault(occasion, []).append(deed)
    told = {
        "preset": wish.preset,
        "interval_ms": wish.interval_ms,
        "budget": wish.budget,
        "no_rules": list(wish.without),
        "capture": captured,
        "rules": rules,
        "on": followed,
    }
    return {key: value for key, value in told.items() if value not in ({}, [])}


def toml(wish: RunChoices) -> str:
    """``leadline.toml``.

    Raises:
        ConfigurationError: Something in it is none that it takes.
    """
    told = settings(wish)
    parse(told, "leadline.toml")
    lines = [f"{key} = {_written(value)}" for key, value in told.items() if not isinstance(value, dict)]
    for section in ("capture", "rules", "on"):
        table: Mapping[str, Any] = told.get(section, {})
        if table:
            lines += ["", f"[{section}]", *(f"{_key(key)} = {_written(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _written(value: Any) -> str:
    """A value as TOML has it; its strings are JSON's, but for what JSON leaves as it is."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_written(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_written, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _written(name)


def check(wish: RunChoices, root: str) -> CapturePlan:
    """The plan that a wish means; everything is checked as ``leadline run`` does it.

    Rules and actions in files of one's own are not looked up here.

    Args:
        root: The folder below which runs stand.
    Raises:
        ConfigurationError: Something is wrong.
        UnknownNameError: Something has no such name.
    """
    check_preset(wish.preset, "the preset")
    check_interval(wish.interval_ms, "the interval")
    budget = parse_budget(wish.budget, "the budget")
    captured = tuple(map(parse_capture, wish.capture))
    actions = resolve_actions([parse_action(each) for each in wish.on], targets={})
    resolved = resolve_rules(_specs(wish))
    merged = merge(preset_items(wish.preset), captured, needs_of(resolved, actions), root=root)
    return replace(merged, budget=budget)


def _specs(wish: RunChoices) -> list[RuleSpec]:
    chosen = {each: RuleSpec(each, each) for each in default_rules(wish.preset) if each not in wish.without}
    for text in wish.rules:
        option = parse_rule(text)
        _refuse_unknown([option.rule])
        chosen[option.alias] = RuleSpec(option.alias, option.rule, option.parameters, "", "option")
    _refuse_unknown(wish.without)
    return list(chosen.values())


def _refuse_unknown(names: Iterable[str]) -> None:
    for each in names:
        if each not in rule_names():
            raise UnknownNameError("rule", each, rule_names())


def capture_words(collection: str, given: Mapping[str, str]) -> str:
    """A collection and what is asked of it in the words of ``--capture``.

    Raises:
        ConfigurationError: It has another form.
    """
    text = f"{collection}:{','.join(f'{key}={value}' for key, value in given.items())}"
    spec = parse_spec(text, option="capture")
    if spec.name != collection or spec.parameters != dict(given):
        raise ConfigurationError(f"capture {collection}: {text!r} cannot be written behind --capture")
    parse_capture(text)
    return text
