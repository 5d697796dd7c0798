"""The configuration file ``leadline.toml``: strictly typed; errors for unknown keys suggest the nearest known key."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from leadline.config.action_options import ActionOption, parse_triggered_action, triggered_action_from_table
from leadline.config.budget import DEFAULT_BUDGET, parse_budget
from leadline.config.options import RuleOption, capture_item
from leadline.config.profile_windows import parse_windows
from leadline.config.secrets import refuse_literal
from leadline.errors import ConfigurationError, closest, located
from leadline.records.metric import INTERVALS_MS
from leadline.records.names import PRESETS
from leadline.records.plan import CaptureItem

FILE_NAME: Final = "leadline.toml"
_NAME: Final = re.compile(r"[A-Za-z_][\w-]*")

T = TypeVar("T")


class Preset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user-defined preset; its keys override those at the top of the file."""

    base: str = "standard"
    """light, standard, full or sagemaker."""
    interval_ms: int | None = None
    budget: str | None = None
    default_rules: bool | None = None
    capture: dict[str, Any] = {}
    rules: dict[str, Any] = {}


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every key of the configuration file."""

    preset: str = "standard"
    """light, standard, full, sagemaker, or one of ``presets``."""
    out: str | None = None
    """The runs directory."""
    interval_ms: int = 500
    """Sampling interval of the system metrics."""
    budget: str = DEFAULT_BUDGET
    """Overhead budget as a share of the step time: ``2%``, or ``off``."""
    default_rules: bool = True
    """Whether the preset's default rules are evaluated."""
    no_rules: tuple[str, ...] = ()
    """Rules to leave out."""
    capture: dict[str, Any] = {}
    """By collection, the keys of ``--capture``; a list of such tables for several items of one collection."""
    rules: dict[str, Any] = {}
    """By rule or alias, its parameters; ``rule`` is the rule of an alias."""
    on: dict[str, Any] = {}
    """By ``RULE[@status]``, the right side of ``--on``, a table of ``action`` and its parameters, or a list of both."""
    profile: tuple[str, ...] = ()
    """Profile windows, in the syntax of ``--profile``."""
    targets: dict[str, str] = {}
    """Named targets, used as in ``notify:@team``."""
    presets: dict[str, Preset] = {}
    """User-defined presets."""

    def under(self, preset: str) -> Settings:
        """The settings with a preset chosen; the keys of a user-defined preset take precedence."""
        custom = self.presets.get(preset)
        if custom is None:
            return msgspec.structs.replace(self, preset=preset)
        overrides = {key: getattr(custom, key) for key in ("interval_ms", "budget", "default_rules")}
        return msgspec.structs.replace(
            self,
            preset=preset,
            capture={**self.capture, **custom.capture},
            rules={**self.rules, **custom.rules},
            presets={preset: Preset(base=custom.base)},
            **{key: value for key, value in overrides.items() if value is not None},
        )

    @property
    def base(self) -> str:
        """The built-in preset that the chosen preset is based on."""
        return self.presets[self.preset].base if self.preset in self.presets else self.preset


class Configuration(NamedTuple):
    """Settings and their source."""

    settings: Settings
    source: str
    """Prefix of error messages: the file, or the run."""
    folder: str
    """Base of relative paths in the settings."""

    def capture_items(self) -> tuple[CaptureItem, ...]:
        """The capture tables as capture items."""
        return tuple(_capture_items(self.settings.capture, f"{self.source}: capture"))

    def rule_options(self) -> tuple[RuleOption, ...]:
        """The rule tables as options."""
        return tuple(_rule_options(self.settings.rules, f"{self.source}: rules"))

    def action_options(self) -> tuple[ActionOption, ...]:
        """The action tables as options."""
        options = _action_options(self.settings.on, f"{self.source}: on")
        return tuple(replace(option, folder=self.folder) for option in options)


def load(path: str | None, folder: str) -> Configuration:
    """Load the settings of a file; without ``path``, of ``leadline.toml`` in ``folder`` if it exists.

    Raises:
        ConfigurationError: The file is not valid TOML, a key is unknown, or a value has the wrong type.
    """
    file_path = path or os.path.join(folder, FILE_NAME)
    if path is None and not os.path.isfile(file_path):
        return Configuration(Settings(), FILE_NAME, folder)
    try:
        with open(file_path, "rb") as file:
            settings = parse(tomllib.load(file), file_path)
    except OSError as error:
        raise ConfigurationError(f"cannot read the configuration {file_path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file_path} is not valid TOML: {error}") from None
    return Configuration(settings, file_path, os.path.dirname(os.path.join(folder, file_path)))


def parse(data: Mapping[str, Any], source: str) -> Settings:
    """Parse settings from plain values, with all checks that need neither rules nor actions.

    Args:
        source: The name of the file in error messages.
    Raises:
        ConfigurationError: A key is unknown, or a value is invalid.
    """
    presets = _table(data.get("presets", {}), f"{source}: presets")
    custom = {name: _preset(name, keys, f"{source}: presets.{name}") for name, keys in presets.items()}
    settings = _convert({**data, "presets": {}}, Settings, source)
    settings = msgspec.structs.replace(settings, presets=custom)
    check_preset(settings.preset, source, custom)
    check_interval(settings.interval_ms, source)
    parse_budget(settings.budget, f"{source}: budget")
    _check_tables(settings.capture, settings.rules, source)
    list(_action_options(settings.on, f"{source}: on"))
    parse_windows(settings.profile, f"{source}: profile")
    for name, target in settings.targets.items():
        _check_target(name, target, f"{source}: targets.{name}")
    return settings


def check_preset(preset: str, where: str, custom: Iterable[str] = ()) -> None:
    """Raise an error for an unknown preset.

    Args:
        custom: The names of the presets of the configuration file.
    """
    known = (*PRESETS, *custom)
    if preset not in known:
        nearest = closest(preset, known)
        hint = f"did you mean {nearest!r}?" if nearest else f"known: {', '.join(known)}"
        raise ConfigurationError(f"{where}: no preset named {preset!r}; {hint}")


def check_interval(interval_ms: int, where: str) -> None:
    """Raise an error for an interval that the monitor does not support."""
    if interval_ms not in INTERVALS_MS:
        known = ", ".join(map(str, INTERVALS_MS))
        raise ConfigurationError(f"{where}: interval_ms must be one of {known}, not {interval_ms}")


def _preset(name: str, keys: Any, where: str) -> Preset:
    if name in PRESETS or not _NAME.fullmatch(name):
        why = "is a built-in preset" if name in PRESETS else "may contain only letters, digits, '_' and '-'"
        raise ConfigurationError(f"{where}: the name {why}; choose another name")
    preset = _convert(_table(keys, where), Preset, where)
    check_preset(preset.base, f"{where}: base")
    if preset.interval_ms is not None:
        check_interval(preset.interval_ms, where)
    if preset.budget is not None:
        parse_budget(preset.budget, f"{where}: budget")
    _check_tables(preset.capture, preset.rules, where)
    return preset


def _check_tables(capture: Mapping[str, Any], rules: Mapping[str, Any], where: str) -> None:
    list(_capture_items(capture, f"{where}: capture"))
    list(_rule_options(rules, f"{where}: rules"))


def _check_target(name: str, target: str, where: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{where}: a target name may contain only letters, digits, '_' and '-'")
    if not target.strip():
        raise ConfigurationError(f"{where} is empty")
    refuse_literal({"it": target}, where)


def _capture_items(tables: Mapping[str, Any], where: str) -> Iterator[CaptureItem]:
    for collection, given in tables.items():
        for keys in given if isinstance(given, (list, tuple)) else (given,):
            table = _table(keys, f"{where}.{collection}")
            with located(f"{where}.{collection}"):
                yield capture_item(collection, table)


def _rule_options(tables: Mapping[str, Any], where: str) -> Iterator[RuleOption]:
    for alias, given in tables.items():
        keys = _table(given, f"{where}.{alias}")
        rule = keys.get("rule", alias)
        if not isinstance(rule, str) or not rule:
            raise ConfigurationError(f"{where}.{alias}.rule: expected the name of a rule, got {rule!r}")
        parameters = {key: value for key, value in keys.items() if key != "rule"}
        yield RuleOption(alias, rule, parameters, f"{where}.{alias}")


def _action_options(tables: Mapping[str, Any], where: str) -> Iterator[ActionOption]:
    for trigger, given in tables.items():
        entries = given if isinstance(given, (list, tuple)) else (given,)
        for number, entry in enumerate(entries, 1):
            which = f", entry {number}" if len(entries) > 1 else ""
            yield action_option(trigger, entry, f"{where}.{_key(trigger)}{which}")


def action_option(trigger: str, entry: Any, where: str) -> ActionOption:
    """Parse one entry of an ``on`` table.

    Args:
        trigger: ``RULE[@status]``.
        entry: The right side of ``--on``, or a table of ``action`` and its parameters.
        where: Prefix of error messages.
    Raises:
        ConfigurationError: The entry is neither, or is invalid.
    """
    with located(where):
        if isinstance(entry, str):
            return parse_triggered_action(trigger, entry, where=where)
        if isinstance(entry, Mapping):
            return triggered_action_from_table(trigger, entry, where=where)
        raise ConfigurationError(f'expected an action, {{action = "notify", …}} or a list of both, got {entry!r}')


def _key(name: str) -> str:
    """A key in TOML syntax."""
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else f'"{name}"'


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"{where}: expected a table, got {value!r}")
    return value


def _convert(data: Mapping[str, Any], kind: type[T], where: str) -> T:
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{where}: {_format_error(str(error), kind)}") from None


def _format_error(message: str, kind: type) -> str:
    known: tuple[str, ...] = kind.__struct_fields__  # type: ignore[attr-defined]
    unknown = re.match(r"Object contains unknown field `(.*?)`", message)
    if unknown:
        nearest = closest(unknown[1], known)
        hint = f"did you mean {nearest!r}?" if nearest else f"known: {', '.join(known)}"
        return f"no key named {unknown[1]!r}; {hint}"
    wrong = re.match(r"(.*) - at `\$\.?(.*)`", message)
    if wrong:
        return f"{wrong[2]}: {wrong[1][0].lower()}{wrong[1][1:].replace('`', '')}"
    return message
