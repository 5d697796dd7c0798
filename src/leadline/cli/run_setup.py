"""Everything that happens before a training starts: settings checked, rules resolved, the run folder made."""

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

from leadline.cli.configuration import ResolvedOptions, RunOptions, choose, in_words
from leadline.config.action_options import ActionOption
from leadline.config.budget import parse_budget
from leadline.config.options import RuleOption, parse_rule
from leadline.config.presets import merge, preset_items
from leadline.errors import ConfigurationError, RunExistsError, UnknownNameError, located
from leadline.judge import action_resolution
from leadline.judge import rule_plan as judge_plan
from leadline.records.manifest import ActionSpec, Manifest, RuleSpec
from leadline.records.version import __version__
from leadline.rules import registry
from leadline.store.creation import create_run, join_run

__all__ = ["RunOptions", "become_agent", "default_rules", "masked", "prepare", "rule_specs", "runs_root"]

DEFAULT_ROOT: Final = "leadline-runs"
_MASK: Final = "****"
_SECRET: Final = re.compile(r"(?i)(pass(word|wd|phrase)?|secret|token|api[-_]?key|access[-_]?key|credential)s?$")
_URL_PASSWORD: Final = re.compile(r"(?<=://)([^/\s:@]*):([^/\s@]+)@")


def runs_root(out: str | None) -> str:
    """The folder below which runs stand."""
    return out or os.environ.get("LEADLINE_ROOT") or DEFAULT_ROOT


def prepare(wishes: RunOptions, command: Sequence[str]) -> str:
    """Check all wishes and make the run's folder.

    Returns:
        The absolute path of the run.
    Raises:
        LeadlineError: Something is wrong; nothing was made.
    """
    folder = os.getcwd()
    choice = choose(wishes, folder, runs_root(wishes.out))
    options, actions = _actions(choice)
    specs = _rules(choice, actions)
    resolved = judge_plan.resolve_rules(specs)
    actions = tuple(_canonical(action, [spec for spec, _ in resolved]) for action in actions)
    root = os.path.abspath(os.path.expanduser(runs_root(choice.out)))
    root = os.path.dirname(wishes.at) if wishes.at else root
    judge_plan.check_runs(resolved, root)
    profiled = choice.profiled()
    captured, needs = choice.captured(), judge_plan.plan(resolved, actions)
    budget = parse_budget(choice.budget, "--budget")
    plan = replace(merge(preset_items(choice.base), captured, needs, root=root), budget=budget)
    path = wishes.at or _place(root, wishes.name, command)
    action_resolution.try_actions(actions)
    manifest = Manifest(
        name=os.path.basename(path),
        uri=path,
        command=masked(command),
        started_ns=time.time_ns(),
        leadline=__version__,
        preset=choice.preset,
        interval_ms=choice.interval_ms,
        folder=folder,
        versions=_versions(),
        plan=plan,
        rules=tuple(spec for spec, _ in resolved),
        actions=actions,
        profile=profiled,
        settings=in_words(choice, [spec for spec, _ in resolved], options),
    )
    if wishes.at:
        join_run(path, manifest)
    else:
        create_run(path, manifest)
    return path


def _actions(choice: ResolvedOptions) -> tuple[tuple[ActionOption, ...], tuple[ActionSpec, ...]]:
    """What is asked for, and what it means."""
    targets = choice.configuration.settings.targets
    of_file, asked = choice.configuration.action_options(), choice.asked_actions()
    specs = action_resolution.resolve_actions(of_file, targets=targets, source="config")
    specs += action_resolution.resolve_actions(asked, targets=targets, source="option")
    return (*of_file, *asked), action_resolution.merge(specs)


def default_rules(preset: str | None = None) -> list[RuleSpec]:
    """The rules that judge unless told otherwise; Debugger's preset has the one that Debugger had."""
    if preset == "sagemaker":
        return [RuleSpec("profiler_report", "profiler_report", source="preset")]
    return [RuleSpec(name, name, source="default") for name in registry.DEFAULT]


def rule_specs(options: Iterable[str | RuleOption], folder: str, source: str = "option") -> list[RuleSpec]:
    """What ``--rule`` options, or the tables of a configuration file, ask for."""
    parsed = (parse_rule(each) if isinstance(each, str) else each for each in options)
    return [RuleSpec(_alias(each), each.rule, each.parameters, folder, source) for each in parsed]


def _rules(choice: ResolvedOptions, actions: Sequence[ActionSpec]) -> list[RuleSpec]:
    """The preset's own rules, then those of the file, then those asked for; a later one of a name replaces."""
    chosen: dict[str, RuleSpec] = {}
    if choice.wants_default_rules:
        chosen = {spec.alias: spec for spec in default_rules(choice.base)}
    chosen |= {spec.alias: spec for spec in _rules_of_file(choice)}
    chosen |= {spec.alias: spec for spec in rule_specs(choice.wishes.rules, choice.folder)}
    for action in actions:
        name = registry.canonical(action.rule)
        if name not in chosen and name in registry.rule_names():
            chosen[name] = RuleSpec(name, name, source="action")
    return _without(choice, chosen)


def _rules_of_file(choice: ResolvedOptions) -> list[RuleSpec]:
    """The tables of the file; what is wrong with one is said with its place."""
    specs = []
    for option in choice.configuration.rule_options():
        (spec,) = rule_specs([option], choice.configuration.folder, "config")
        with located(option.where):
            judge_plan.resolve_rule(spec)
        specs.append(spec)
    return specs


def _without(choice: ResolvedOptions, chosen: dict[str, RuleSpec]) -> list[RuleSpec]:
    for each in choice.wishes.without:
        if registry.canonical(each) not in chosen:
            raise UnknownNameError("rule of this run", each, chosen, hint="--no-rule")
    settled = choice.configuration.settings.no_rules
    for each in settled:
        if registry.canonical(each) not in (*chosen, *registry.rule_names()):
            known = dict.fromkeys([*chosen, *registry.rule_names()])
            raise UnknownNameError("rule", each, known, hint=f"{choice.configuration.place}: no_rules")
    left_out = {registry.canonical(each) for each in (*choice.wishes.without, *settled)}
    return [spec for alias, spec in chosen.items() if alias not in left_out]


def _alias(option: RuleOption) -> str:
    """A rule asked for by Amazon's name is known by its own, unless it was given another."""
    own = registry.canonical(option.rule)
    given_none = option.alias == parse_rule(option.rule).alias
    return own if given_none and own != option.rule else option.alias


def _canonical(action: ActionSpec, rules: Sequence[RuleSpec]) -> ActionSpec:
    known = {spec.alias for spec in rules}
    rule = action.rule if action.rule in known else registry.canonical(action.rule)
    return replace(action, rule=rule)


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
