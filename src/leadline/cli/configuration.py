"""Run options resolved against the configuration file or the configuration of another run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from leadline.config import settings as settings_file
from leadline.config.action_options import ActionOption, parse_action
from leadline.config.budget import parse_budget
from leadline.config.options import parse_capture, parse_spec
from leadline.config.profile_windows import parse_windows
from leadline.config.settings import Configuration, action_option, check_interval, check_preset
from leadline.errors import ConfigurationError
from leadline.reader.find_runs import find_run, read_manifest
from leadline.records.manifest import RuleSpec
from leadline.records.plan import CaptureItem
from leadline.records.profile_window import ProfileWindow


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of ``leadline run``, or the arguments of ``watch``; None and empty: not given."""

    name: str | None = None
    out: str | None = None
    config: str | None = None
    """A file, or a run by name or path."""
    preset: str | None = None
    capture: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    no_default_rules: bool = False
    on: tuple[str | dict[str, Any], ...] = ()
    """Texts of ``--on``, or tables with ``on`` (``RULE[@status]``), ``action`` and its parameters."""
    profile: tuple[str, ...] = ()
    """In the syntax of ``--profile``."""
    interval_ms: int | None = None
    budget: str | None = None
    at: str | None = None
    """The run directory, which other processes may be creating, too; overrides ``name`` and ``out``."""


@dataclass(frozen=True, slots=True)
class ResolvedOptions:
    """The configuration with the chosen preset, overridden by the options."""

    options: RunOptions
    folder: str
    """Base of relative paths in the options."""
    configuration: Configuration
    preset: str
    base: str
    """The built-in preset that the preset is based on."""
    interval_ms: int
    budget: str
    out: str | None

    @property
    def wants_default_rules(self) -> bool:
        """Whether the default rules of the preset are evaluated."""
        return self.configuration.settings.default_rules and not self.options.no_default_rules

    def capture_items(self) -> tuple[CaptureItem, ...]:
        """The capture items of the configuration and the options, without the preset's."""
        return (*self.configuration.capture_items(), *map(parse_capture, self.options.capture))

    def profile_windows(self) -> tuple[ProfileWindow, ...]:
        """The profile windows of the options, or else of the configuration."""
        return parse_windows(self.profile_options())

    def profile_options(self) -> tuple[str, ...]:
        """The profile windows in the syntax of ``--profile``."""
        return self.options.profile or tuple(self.configuration.settings.profile)

    def action_options(self) -> tuple[ActionOption, ...]:
        """The actions of the options, without those of the configuration."""
        return tuple(replace(_action_option(given), folder=self.folder) for given in self.options.on)


def resolve_options(options: RunOptions, folder: str, root: str) -> ResolvedOptions:
    """Load the configuration and apply the options.

    Args:
        folder: The folder in which ``leadline.toml`` is looked up.
        root: The runs directory, in which a run named by ``--config`` is looked up.
    Raises:
        LeadlineError: The configuration cannot be read, or is invalid.
    """
    loaded = _load(options.config, folder, root)
    preset = options.preset or loaded.settings.preset
    check_preset(preset, "--preset", loaded.settings.presets)
    settings = loaded.settings.under(preset)
    interval_ms, budget = options.interval_ms or settings.interval_ms, options.budget or settings.budget
    check_interval(interval_ms, "--interval-ms")
    parse_budget(budget, "--budget")
    configuration = loaded._replace(settings=settings)
    return ResolvedOptions(
        options, folder, configuration, preset, settings.base, interval_ms, budget, options.out or settings.out
    )


def _load(config: str | None, folder: str, root: str) -> Configuration:
    is_file = config is None or config.endswith(".toml") or (os.path.exists(config) and not os.path.isdir(config))
    if config is None or is_file:
        return settings_file.load(config, folder)
    manifest = read_manifest(find_run(config, root))
    if manifest.settings is None:
        raise ConfigurationError(
            f"--config {config}: that run was recorded by Leadline {manifest.leadline}, which did not store "
            "configurations; give a file, or a newer run"
        )
    source = f"the configuration of {manifest.name}"
    return Configuration(settings_file.parse(manifest.settings, source), source, manifest.folder)


def _action_option(given: str | Mapping[str, Any]) -> ActionOption:
    if isinstance(given, str):
        return parse_action(given)
    keys = {key: value for key, value in given.items() if key != "on"}
    return action_option(str(given.get("on", "*")), keys, f"on={given.get('on', '*')}")


def recorded_settings(
    resolved: ResolvedOptions, rules: Iterable[RuleSpec], actions: Sequence[ActionOption]
) -> dict[str, Any]:
    """Return the settings as in ``leadline.toml``; another run with ``--config`` of this run reads them.

    Args:
        rules: All rules of the run.
        actions: All actions of the configuration and the options, in this order.
    """
    settings, options = resolved.configuration.settings, resolved.options
    table: dict[str, Any] = {
        "preset": resolved.preset,
        "interval_ms": resolved.interval_ms,
        "budget": resolved.budget,
        "default_rules": resolved.wants_default_rules,
        "no_rules": list(dict.fromkeys([*settings.no_rules, *options.without])),
        "capture": _capture_tables(resolved),
        "profile": list(resolved.profile_options()),
        "rules": {spec.alias: _rule_table(spec) for spec in rules if spec.source in ("config", "option")},
        "on": _action_tables(actions),
        "targets": dict(settings.targets),
        "presets": {resolved.preset: {"base": resolved.base}} if resolved.preset != resolved.base else {},
    }
    if resolved.out:
        table["out"] = os.path.abspath(os.path.expanduser(resolved.out))
    return {key: value for key, value in table.items() if value not in ({}, [])}


def _capture_tables(resolved: ResolvedOptions) -> dict[str, list[Any]]:
    tables: dict[str, list[Any]] = {}
    for collection, given in resolved.configuration.settings.capture.items():
        tables[collection] = [*given] if isinstance(given, (list, tuple)) else [given]
    for text in resolved.options.capture:
        spec = parse_spec(text, option="capture")
        tables.setdefault(spec.name, []).append(spec.parameters)
    return tables


def _rule_table(spec: RuleSpec) -> dict[str, Any]:
    return {"rule": _absolute_class_path(spec.rule, spec.folder), **spec.parameters}


def _action_tables(actions: Iterable[ActionOption]) -> dict[str, list[Any]]:
    tables: dict[str, list[Any]] = {}
    for option in actions:
        name = _absolute_class_path(option.action, option.folder)
        entry = {"action": name, **option.parameters} if option.arguments is None else f"{name}:{option.arguments}"
        tables.setdefault(option.trigger, []).append(entry)
    return tables


def _absolute_class_path(name: str, folder: str) -> str:
    """A class in a file with the absolute path of the file; any other name unchanged."""
    file, colon, kind = name.rpartition(":")
    return f"{os.path.abspath(os.path.join(folder, file))}:{kind}" if colon and file.endswith(".py") else name
