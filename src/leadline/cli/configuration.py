"""What the configuration file, or another run, and the options of a command come to together."""

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
    """What the options of ``leadline run`` (or the arguments of ``watch``) say; None and empty: nothing."""

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
    """In the words of ``--on``; or a table with ``on`` (``RULE[@status]``), ``action`` and its parameters."""
    profile: tuple[str, ...] = ()
    """In the words of ``--profile``."""
    interval_ms: int | None = None
    budget: str | None = None
    at: str | None = None
    """The run's own folder, which others may be making too; ``name`` and ``out`` say nothing then."""


@dataclass(frozen=True, slots=True)
class ResolvedOptions:
    """The configuration under the chosen preset, and the options that come on top."""

    wishes: RunOptions
    folder: str
    """What relative files in the options are relative to."""
    configuration: Configuration
    preset: str
    base: str
    """The built-in preset that it is made from."""
    interval_ms: int
    budget: str
    out: str | None

    @property
    def wants_default_rules(self) -> bool:
        """Whether the preset's own rules are to judge, where it has any."""
        return self.configuration.settings.default_rules and not self.wishes.no_default_rules

    def captured(self) -> tuple[CaptureItem, ...]:
        """What is captured beside the preset's."""
        return (*self.configuration.capture_items(), *(parse_capture(each) for each in self.wishes.capture))

    def profiled(self) -> tuple[ProfileWindow, ...]:
        """What is looked at in depth: the options' windows, without any those of the file."""
        return parse_windows(self.profile_words())

    def profile_words(self) -> tuple[str, ...]:
        """The same in the words of ``--profile``."""
        return self.wishes.profile or tuple(self.configuration.settings.profile)

    def asked_actions(self) -> tuple[ActionOption, ...]:
        """The actions that options ask for."""
        return tuple(replace(_asked(each), folder=self.folder) for each in self.wishes.on)


def choose(wishes: RunOptions, folder: str, root: str) -> ResolvedOptions:
    """Read the configuration, and put the options on top.

    Args:
        folder: Where ``leadline.toml`` may lie.
        root: The folder below which a run's name is looked up.
    Raises:
        LeadlineError: The configuration cannot be read, or something in it is wrong.
    """
    found = _load(wishes.config, folder, root)
    preset = wishes.preset or found.settings.preset
    check_preset(preset, "--preset", found.settings.presets)
    settings = found.settings.under(preset)
    interval_ms, budget = wishes.interval_ms or settings.interval_ms, wishes.budget or settings.budget
    check_interval(interval_ms, "--interval-ms")
    parse_budget(budget, "--budget")
    chosen = found._replace(settings=settings)
    return ResolvedOptions(
        wishes, folder, chosen, preset, settings.base, interval_ms, budget, wishes.out or settings.out
    )


def _load(place: str | None, folder: str, root: str) -> Configuration:
    is_file = place is None or place.endswith(".toml") or (os.path.exists(place) and not os.path.isdir(place))
    if place is None or is_file:
        return settings_file.load(place, folder)
    path = find_run(place, root)
    manifest = read_manifest(path)
    if manifest.settings is None:
        raise ConfigurationError(
            f"--config {place}: that run is of Leadline {manifest.leadline}, which did not keep configurations; "
            "name a file, or a newer run"
        )
    spoken = f"the configuration of {manifest.name}"
    return Configuration(settings_file.parse(manifest.settings, spoken), spoken, manifest.folder)


def _asked(given: str | Mapping[str, Any]) -> ActionOption:
    if isinstance(given, str):
        return parse_action(given)
    keys = {key: value for key, value in given.items() if key != "on"}
    return action_option(str(given.get("on", "*")), keys, f"on={given.get('on', '*')}")


def in_words(choice: ResolvedOptions, rules: Iterable[RuleSpec], actions: Sequence[ActionOption]) -> dict[str, Any]:
    """What was asked for, in the words of ``leadline.toml``: what another run reads to be the same.

    Args:
        rules: All rules of the run.
        actions: All actions that were asked for, those of the file first.
    """
    settings, wishes = choice.configuration.settings, choice.wishes
    words: dict[str, Any] = {
        "preset": choice.preset,
        "interval_ms": choice.interval_ms,
        "budget": choice.budget,
        "default_rules": choice.wants_default_rules,
        "no_rules": list(dict.fromkeys([*settings.no_rules, *wishes.without])),
        "capture": _captured(choice),
        "profile": list(choice.profile_words()),
        "rules": {each.alias: _rule(each) for each in rules if each.source in ("config", "option")},
        "on": _followed(actions),
        "targets": dict(settings.targets),
        "presets": {choice.preset: {"base": choice.base}} if choice.preset != choice.base else {},
    }
    if choice.out:
        words["out"] = os.path.abspath(os.path.expanduser(choice.out))
    return {key: value for key, value in words.items() if value not in ({}, [])}


def _captured(choice: ResolvedOptions) -> dict[str, list[Any]]:
    captured: dict[str, list[Any]] = {}
    for collection, given in choice.configuration.settings.capture.items():
        captured[collection] = [*given] if isinstance(given, (list, tuple)) else [given]
    for text in choice.wishes.capture:
        spec = parse_spec(text, option="capture")
        captured.setdefault(spec.name, []).append(spec.parameters)
    return captured


def _rule(spec: RuleSpec) -> dict[str, Any]:
    return {"rule": _found_from_anywhere(spec.rule, spec.folder), **spec.parameters}


def _followed(actions: Iterable[ActionOption]) -> dict[str, list[Any]]:
    followed: dict[str, list[Any]] = {}
    for each in actions:
        name = _found_from_anywhere(each.action, each.folder)
        words = {"action": name, **each.parameters} if each.words is None else f"{name}:{each.words}"
        followed.setdefault(each.occasion, []).append(words)
    return followed


def _found_from_anywhere(name: str, folder: str) -> str:
    """A class in a file, by the whole path of the file."""
    file, colon, kind = name.rpartition(":")
    return f"{os.path.abspath(os.path.join(folder, file))}:{kind}" if colon and file.endswith(".py") else name
