"""Preparation of a run: options checked, rules and actions resolved, the run directory created."""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from importlib import metadata
from typing import Final

from leadline.cli.configuration import ResolvedOptions, RunOptions, recorded_settings, resolve_options
from leadline.config.action_options import ActionOption
from leadline.config.budget import parse_budget
from leadline.config.options import RuleOption, parse_rule
from leadline.config.presets import merge, preset_items
from leadline.errors import ConfigurationError, RunExistsError, UnknownNameError, located
from leadline.judge import action_resolution, rule_plan
from leadline.records.manifest import ActionSpec, Manifest, RuleSpec
from leadline.records.version import __version__
from leadline.rules import registry
from leadline.store.creation import create_run, join_run

__all__ = ["RunOptions", "become_agent", "default_rules", "mask_secrets", "prepare", "rule_specs", "runs_root"]

DEFAULT_ROOT: Final = "leadline-runs"
_MASK: Final = "****"
_SECRET: Final = re.compile(r"(?i)(pass(word|wd|phrase)?|secret|token|api[-_]?key|access[-_]?key|credential)s?$")
_URL_PASSWORD: Final = re.compile(r"(?<=://)([^/\s:@]*):([^/\s@]+)@")


def runs_root(out: str | None) -> str:
    """The runs directory."""
    return out or os.environ.get("LEADLINE_ROOT") or DEFAULT_ROOT


def prepare(options: RunOptions, command: Sequence[str]) -> str:
    """Check all options and create the run directory.

    Returns:
        The absolute path of the run.
    Raises:
        LeadlineError: An option is invalid; nothing was created.
    """
    folder = os.getcwd()
    resolved = resolve_options(options, folder, runs_root(options.out))
    action_options, actions = _actions(resolved)
    specs = _rules(resolved, actions)
    rules = rule_plan.resolve_rules(specs)
    actions = tuple(_canonical(action, [spec for spec, _ in rules]) for action in actions)
    root = os.path.abspath(os.path.expanduser(runs_root(resolved.out)))
    root = os.path.dirname(options.at) if options.at else root
    rule_plan.check_runs(rules, root)
    windows = resolved.profile_windows()
    captured, needs = resolved.capture_items(), rule_plan.plan(rules, actions)
    budget = parse_budget(resolved.budget, "--budget")
    plan = replace(merge(preset_items(resolved.base), captured, needs, root=root), budget=budget)
    path = options.at or _new_run_path(root, options.name, command)
    action_resolution.try_actions(actions)
    manifest = Manifest(
        name=os.path.basename(path),
        uri=path,
        command=mask_secrets(command),
        started_ns=time.time_ns(),
        leadline=__version__,
        preset=resolved.preset,
        interval_ms=resolved.interval_ms,
        folder=folder,
        versions=_versions(),
        plan=plan,
        rules=tuple(spec for spec, _ in rules),
        actions=actions,
        profile=windows,
        settings=recorded_settings(resolved, [spec for spec, _ in rules], action_options),
    )
    if options.at:
        join_run(path, manifest)
    else:
        create_run(path, manifest)
    return path


def _actions(resolved: ResolvedOptions) -> tuple[tuple[ActionOption, ...], tuple[ActionSpec, ...]]:
    """The actions as given, and resolved."""
    targets = resolved.configuration.settings.targets
    configured, given = resolved.configuration.action_options(), resolved.action_options()
    specs = action_resolution.resolve_actions(configured, targets=targets, source="config")
    specs += action_resolution.resolve_actions(given, targets=targets, source="option")
    return (*configured, *given), action_resolution.merge(specs)


def default_rules(preset: str | None = None) -> list[RuleSpec]:
    """The rules that are evaluated by default; the preset ``sagemaker`` has Debugger's only default rule."""
    if preset == "sagemaker":
        return [RuleSpec("profiler_report", "profiler_report", source="preset")]
    return [RuleSpec(name, name, source="default") for name in registry.DEFAULT]


def rule_specs(options: Iterable[str | RuleOption], folder: str, source: str = "option") -> list[RuleSpec]:
    """The rules of ``--rule`` options, or of the tables of a configuration file."""
    parsed = [parse_rule(option) if isinstance(option, str) else option for option in options]
    return [RuleSpec(_alias(option), option.rule, option.parameters, folder, source) for option in parsed]


def _rules(resolved: ResolvedOptions, actions: Sequence[ActionSpec]) -> list[RuleSpec]:
    """The default rules, those of the configuration, then those of the options; the last one of an alias wins."""
    specs: dict[str, RuleSpec] = {}
    if resolved.wants_default_rules:
        specs = {spec.alias: spec for spec in default_rules(resolved.base)}
    specs |= {spec.alias: spec for spec in _configured_rules(resolved)}
    specs |= {spec.alias: spec for spec in rule_specs(resolved.options.rules, resolved.folder)}
    for action in actions:
        name = registry.canonical(action.rule)
        if name not in specs and name in registry.rule_names():
            specs[name] = RuleSpec(name, name, source="action")
    return _without_disabled(resolved, specs)


def _configured_rules(resolved: ResolvedOptions) -> list[RuleSpec]:
    """The rules of the configuration; errors name the table."""
    specs = []
    for option in resolved.configuration.rule_options():
        (spec,) = rule_specs([option], resolved.configuration.folder, "config")
        with located(option.where):
            rule_plan.resolve_rule(spec)
        specs.append(spec)
    return specs


def _without_disabled(resolved: ResolvedOptions, specs: dict[str, RuleSpec]) -> list[RuleSpec]:
    for name in resolved.options.without:
        if registry.canonical(name) not in specs:
            raise UnknownNameError("rule of this run", name, specs, hint="--no-rule")
    configured = resolved.configuration.settings.no_rules
    for name in configured:
        if registry.canonical(name) not in (*specs, *registry.rule_names()):
            known = dict.fromkeys([*specs, *registry.rule_names()])
            raise UnknownNameError("rule", name, known, hint=f"{resolved.configuration.source}: no_rules")
    disabled = {registry.canonical(name) for name in (*resolved.options.without, *configured)}
    return [spec for alias, spec in specs.items() if alias not in disabled]


def _alias(option: RuleOption) -> str:
    """The alias; a rule given by Amazon's name and without an alias has Leadline's name."""
    name = registry.canonical(option.rule)
    has_default_alias = option.alias == parse_rule(option.rule).alias
    return name if has_default_alias and name != option.rule else option.alias


def _canonical(action: ActionSpec, rules: Sequence[RuleSpec]) -> ActionSpec:
    known = {spec.alias for spec in rules}
    rule = action.rule if action.rule in known else registry.canonical(action.rule)
    return replace(action, rule=rule)


def _new_run_path(root: str, name: str | None, command: Sequence[str]) -> str:
    if name is not None:
        if not re.fullmatch(r"[\w][\w.@+-]*", name):
            raise ConfigurationError(f"--name {name!r}: a run name may contain only letters, digits, '.', '_' and '-'")
        path = os.path.join(root, name)
        if os.path.exists(path):
            raise RunExistsError(f"a run already exists at {path}; choose another --name, or remove it")
        return path
    stem = next((os.path.splitext(os.path.basename(part))[0] for part in command if part.endswith(".py")), "")
    stem = re.sub(r"[^\w.-]+", "-", stem or (os.path.basename(command[0]) if command else ""))
    first = f"{stem or 'run'}-{datetime.now():%m%d-%H%M}"
    candidates = (first, *(f"{first}-{count}" for count in range(2, 10_000)))
    return next(path for path in (os.path.join(root, name) for name in candidates) if not os.path.exists(path))


def mask_secrets(command: Sequence[str]) -> tuple[str, ...]:
    """A command line without the values of options and variables whose names suggest a secret."""
    masked: list[str] = []
    is_secret = False
    for argument in command:
        name, equals, _ = argument.partition("=")
        if is_secret and not argument.startswith("-"):
            masked.append(_MASK)
            is_secret = False
            continue
        is_secret = argument.startswith("-") and not equals and bool(_SECRET.search(name))
        shown = f"{name}={_MASK}" if equals and _SECRET.search(name) else argument
        masked.append(_URL_PASSWORD.sub(rf"\1:{_MASK}@", shown))
    return tuple(masked)


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "leadline": __version__, "platform": platform.platform()}
    for package in ("torch", "numpy"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def become_agent(path: str, arguments: Sequence[str]) -> None:
    """Replace this process by the agent of a run, with the same pid and terminal and few imports."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", "leadline.agent", path, *arguments])
