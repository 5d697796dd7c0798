"""Everything that happens before a training starts: settings checked, rules resolved, the run folder made."""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import metadata
from typing import Final

from leadline.config import settings as settings_file
from leadline.config.budget import parse_budget
from leadline.config.options import ActionOption, RuleOption, parse_action, parse_capture, parse_rule
from leadline.config.presets import merge, preset_items
from leadline.config.settings import Settings, check_interval, check_preset
from leadline.errors import ConfigurationError, RunExistsError, UnknownNameError
from leadline.judge import plan as judge_plan
from leadline.records.manifest import ActionSpec, Manifest, RuleSpec
from leadline.records.version import __version__
from leadline.rules import registry
from leadline.store.creation import create_run, join_run

DEFAULT_ROOT: Final = "leadline-runs"
_MASK: Final = "****"
_SECRET: Final = re.compile(r"(?i)(pass(word|wd|phrase)?|secret|token|api[-_]?key|access[-_]?key|credential)s?$")
_URL_PASSWORD: Final = re.compile(r"(?<=://)([^/\s:@]*):([^/\s@]+)@")


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the options of ``leadline run`` (or the arguments of ``watch``) say; None and empty: nothing."""

    name: str | None = None
    out: str | None = None
    config: str | None = None
    preset: str | None = None
    capture: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    no_default_rules: bool = False
    on: tuple[str, ...] = ()
    interval_ms: int | None = None
    budget: str | None = None
    at: str | None = None
    """The run's own folder, which others may be making too; ``name`` and ``out`` say nothing then."""


def runs_root(out: str | None) -> str:
    """The folder below which runs stand."""
    return out or os.environ.get("LEADLINE_ROOT") or DEFAULT_ROOT


def prepare(wishes: Wishes, command: Sequence[str]) -> str:
    """Check all wishes and make the run's folder.

    Returns:
        The absolute path of the run.
    Raises:
        LeadlineError: Something is wrong; nothing was made.
    """
    folder = os.getcwd()
    settings = settings_file.load(wishes.config, folder)
    preset = wishes.preset or settings.preset
    interval_ms = wishes.interval_ms or settings.interval_ms
    check_preset(preset, "--preset")
    check_interval(interval_ms, "--interval-ms")
    budget = parse_budget(wishes.budget or settings.budget, "--budget")
    actions = _actions(wishes, settings)
    specs = _rules(wishes, settings, preset, actions, folder)
    resolved = judge_plan.resolve_rules(specs)
    actions = tuple(_canonical(action, [spec for spec, _ in resolved]) for action in actions)
    root = os.path.abspath(os.path.expanduser(runs_root(wishes.out or settings.out)))
    root = os.path.dirname(wishes.at) if wishes.at else root
    judge_plan.check_runs(resolved, root)
    captured = (*settings.capture_items(), *(parse_capture(each) for each in wishes.capture))
    needs = judge_plan.plan(resolved, actions)
    plan = replace(merge(preset_items(preset), captured, needs, root=root), budget=budget)
    path = wishes.at or _place(root, wishes.name, command)
    manifest = Manifest(
        name=os.path.basename(path),
        uri=path,
        command=masked(command),
        started_ns=time.time_ns(),
        leadline=__version__,
        preset=preset,
        interval_ms=interval_ms,
        folder=folder,
        versions=_versions(),
        plan=plan,
        rules=tuple(spec for spec, _ in resolved),
        actions=actions,
    )
    if wishes.at:
        join_run(path, manifest)
    else:
        create_run(path, manifest)
    return path


def _actions(wishes: Wishes, settings: Settings) -> tuple[ActionSpec, ...]:
    options: list[ActionOption] = [*settings.action_options(), *(parse_action(each) for each in wishes.on)]
    return tuple(ActionSpec(each.rule, each.action, each.status, each.parameters) for each in options)


def default_rules() -> list[RuleSpec]:
    """The rules that judge unless told otherwise."""
    return [RuleSpec(name, name, source="default") for name in registry.DEFAULT]


def rule_specs(options: Iterable[str | RuleOption], folder: str, source: str = "option") -> list[RuleSpec]:
    """What ``--rule`` options, or the tables of a configuration file, ask for."""
    parsed = (parse_rule(each) if isinstance(each, str) else each for each in options)
    return [RuleSpec(_alias(each), each.rule, each.parameters, folder, source) for each in parsed]


def _rules(
    wishes: Wishes, settings: Settings, preset: str, actions: Sequence[ActionSpec], folder: str
) -> list[RuleSpec]:
    """The preset's own rules, then those of the file, then those asked for; a later one of a name replaces."""
    chosen: dict[str, RuleSpec] = {}
    if settings.default_rules and not wishes.no_default_rules and preset != "sagemaker":
        chosen = {spec.alias: spec for spec in default_rules()}
    chosen |= {spec.alias: spec for spec in rule_specs(settings.rule_options(), folder, "config")}
    chosen |= {spec.alias: spec for spec in rule_specs(wishes.rules, folder)}
    for action in actions:
        name = registry.canonical(action.rule)
        if name != "*" and name not in chosen and name in registry.rule_names():
            chosen[name] = RuleSpec(name, name, source="action")
    for each in wishes.without:
        if registry.canonical(each) not in chosen:
            raise UnknownNameError("rule of this run", each, chosen, hint="--no-rule")
        del chosen[registry.canonical(each)]
    return list(chosen.values())


def _alias(option: RuleOption) -> str:
    """A rule asked for by Amazon's name is known by its own, unless it was given another."""
    own = registry.canonical(option.rule)
    given_none = option.alias == parse_rule(option.rule).alias
    return own if given_none and own != option.rule else option.alias


def _canonical(action: ActionSpec, rules: Sequence[RuleSpec]) -> ActionSpec:
    known = {spec.alias for spec in rules}
    rule = action.rule if action.rule in known else registry.canonical(action.rule)
    return ActionSpec(rule, action.action, action.status, action.parameters)


def _place(root: str, name: str | None, command: Sequence[str]) -> str:
    if name is not None:
        if not re.fullmatch(r"[\w][\w.@+-]*", name):
            raise ConfigurationError(f"--name {name!r}: a run's name has letters, digits, '.', '_' and '-' only")
        path = os.path.join(root, name)
        if os.path.exists(path):
            raise RunExistsError(f"a run stands at {path} already; choose another --name, or remove it")
        return path
    stem = next((os.path.splitext(os.path.basename(each))[0] for each in command if each.endswith(".py")), "")
    stem = re.sub(r"[^\w.-]+", "-", stem or (os.path.basename(command[0]) if command else ""))
    first = f"{stem or 'run'}-{datetime.now():%m%d-%H%M}"
    candidates = (first, *(f"{first}-{count}" for count in range(2, 10_000)))
    return next(path for path in (os.path.join(root, each) for each in candidates) if not os.path.exists(path))


def masked(command: Sequence[str]) -> tuple[str, ...]:
    """A command line as it may be kept: values of options and variables that look secret are not."""
    kept: list[str] = []
    is_secret = False
    for each in command:
        name, equals, _ = each.partition("=")
        if is_secret and not each.startswith("-"):
            kept.append(_MASK)
            is_secret = False
            continue
        is_secret = each.startswith("-") and not equals and bool(_SECRET.search(name))
        hidden = f"{name}={_MASK}" if equals and _SECRET.search(name) else each
        kept.append(_URL_PASSWORD.sub(rf"\1:{_MASK}@", hidden))
    return tuple(kept)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "leadline": __version__, "platform": platform.platform()}
    for package in ("torch", "numpy"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def become_agent(path: str, arguments: Sequence[str]) -> None:
    """Turn this process into the agent of a run: slim, under the same pid, with the same terminal."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", "leadline.agent", path, *arguments])
