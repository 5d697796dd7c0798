"""Resolution of a configuration to the manifest of its run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from leadline.config import trust
from leadline.config.presets import merge, preset_items
from leadline.config.profile_windows import parse_windows
from leadline.config.restriction import folder_config, restrict
from leadline.config.run_config import (
    DEFAULTS,
    RunConfig,
    check_interval,
    check_preset,
    default_budget,
    parse_budget,
    runs_root,
)
from leadline.config.store_uri import is_uri, parse_place
from leadline.config.toml_file import from_table, from_toml
from leadline.errors import ConfigurationError, UnknownNameError
from leadline.judge.action_resolution import check_triggers, distinct, resolve_action
from leadline.judge.rule_plan import check_runs, default_rules, named, plan, resolve_rules
from leadline.reader.find_runs import find_run, read_manifest
from leadline.records.manifest import ActionSpec, Manifest, RuleSpec
from leadline.records.version import __version__
from leadline.rules import registry


def base_of(config: RunConfig) -> RunConfig:
    """Return what a configuration is based on: a file, the configuration of another run, or ``leadline.toml``.

    Raises:
        LeadlineError: It cannot be read, or is invalid.
    """
    given = config.config
    if given is None:
        return folder_config(os.getcwd())
    if given.endswith(".toml") or (os.path.exists(given) and not os.path.isdir(given)):
        return from_toml(given, os.getcwd())
    manifest = read_manifest(find_run(given, runs_root(config.out, can_be_remote=True)))
    if manifest.settings is None:
        raise ConfigurationError(
            f"--config {given}: that run was recorded by Leadline {manifest.leadline}, which did not store "
            "configurations; give a file, or a newer run"
        )
    base = from_table(manifest.settings, f"the configuration of {manifest.name}", manifest.folder)
    is_trusted = config.trusts_run or trust.is_trusted(trust.digest_of_settings(manifest.settings))
    return base if is_trusted else restrict(base)


def resolve(config: RunConfig, path: str, base: RunConfig | None = None) -> Manifest:
    """Return the manifest of a configuration, without what belongs to one execution: command, time and versions.

    Args:
        path: The run directory, which need not exist.
        base: What the configuration is based on; see ``base_of``.
    Raises:
        LeadlineError: A setting is invalid.
    """
    base = base or RunConfig()
    preset = config.preset or base.preset or "standard"
    check_preset(preset, "--preset", base.presets)
    merged = DEFAULTS.overridden_by(base.with_preset(preset)).overridden_by(config)
    assert merged.interval_ms is not None
    check_interval(merged.interval_ms, "--interval-ms")
    resolved = [resolve_action(entry, merged.targets) for entry in merged.on]
    actions = distinct(action for _, action in resolved)
    rules = resolve_rules(_without_excluded(_rules(merged, actions), config, base), merged.source)
    aliases = [spec.alias for spec, _ in rules]
    actions = tuple(_with_canonical_rule(action, aliases) for action in actions)
    check_triggers(actions, aliases)
    root = os.path.dirname(path)
    check_runs(rules, root)
    budget = parse_budget(merged.budget or default_budget(merged.base), "--budget")
    recorded = replace(
        merged,
        out=_absolute_root(merged.out),
        no_rules=tuple(dict.fromkeys(merged.no_rules)),
        rules=tuple(spec for spec, _ in rules if spec.source in ("config", "option")),
        on=tuple(entry for entry, _ in resolved),
    )
    return Manifest(
        name=os.path.basename(path),
        uri=path,
        command=(),
        started_ns=0,
        leadline=__version__,
        preset=preset,
        interval_ms=merged.interval_ms,
        plan=merge(preset_items(merged.base), merged.capture, plan(rules, actions), root=root, budget=budget),
        rules=tuple(spec for spec, _ in rules),
        actions=actions,
        profile=parse_windows(merged.profile),
        metrics=dict(merged.metrics),
        roles=dict(merged.roles),
        settings=recorded.to_table(),
    )


def _absolute_root(out: str | None) -> str | None:
    if out is None or is_uri(place := parse_place(out)):
        return out
    return os.path.abspath(os.path.expanduser(place))


def _rules(config: RunConfig, actions: Iterable[ActionSpec]) -> dict[str, RuleSpec]:
    """Return the rules by alias: the default ones, those requested, and those that actions name."""
    rules = {spec.alias: spec for spec in default_rules(config.base)} if config.default_rules else {}
    rules |= {spec.alias: spec for spec in map(named, config.rules)}
    for action in actions:
        name = action.rule if action.rule in rules else registry.canonical(action.rule)
        if name not in rules and name in registry.rule_names():
            rules[name] = RuleSpec(name, name, source="action")
    return rules


def _without_excluded(rules: dict[str, RuleSpec], config: RunConfig, base: RunConfig) -> list[RuleSpec]:
    """Return the rules without those that the configuration or its base excludes."""
    for name in config.no_rules:
        if registry.canonical(name) not in rules:
            raise UnknownNameError("rule of this run", name, rules, hint="--no-rule")
    known = dict.fromkeys([*rules, *registry.rule_names()])
    for name in base.no_rules:
        if registry.canonical(name) not in known:
            raise UnknownNameError("rule", name, known, hint=f"{base.source}: no_rules")
    excluded = {registry.canonical(name) for name in (*config.no_rules, *base.no_rules)}
    return [spec for alias, spec in rules.items() if alias not in excluded]


def _with_canonical_rule(action: ActionSpec, aliases: Iterable[str]) -> ActionSpec:
    return action if action.rule in aliases else replace(action, rule=registry.canonical(action.rule))
