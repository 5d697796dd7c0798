"""The configuration file ``leadline.toml``: strictly typed, unknown keys refused with the nearest known one."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from leadline.config.action_options import ActionOption, follow_up, follow_up_table
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
    """A preset of one's own: what it says goes before what stands at the top of the file."""

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
    """The folder below which runs stand."""
    interval_ms: int = 500
    """How often the machine is sampled."""
    budget: str = DEFAULT_BUDGET
    """The share of the step time that what presets and rules ask may take: ``2%``, or ``off``."""
    default_rules: bool = True
    """Whether the preset's own rules judge."""
    no_rules: tuple[str, ...] = ()
    """Rules that are left out."""
    capture: dict[str, Any] = {}
    """By collection, the keys of ``--capture``; a list of such tables where one collection has several wishes."""
    rules: dict[str, Any] = {}
    """By rule or alias, its parameters; ``rule`` names the rule of an alias."""
    on: dict[str, Any] = {}
    """By ``RULE[@status]``, the right side of ``--on``, a table of ``action`` and its parameters, or a list of both."""
    profile: tuple[str, ...] = ()
    """What is looked at in depth: the words of ``--profile``."""
    targets: dict[str, str] = {}
    """Names for targets: ``notify:@team``."""
    presets: dict[str, Preset] = {}
    """Presets of one's own."""

    def under(self, preset: str) -> Settings:
        """What these are where a preset is chosen; its own keys go first."""
        own = self.presets.get(preset)
        if own is None:
            return msgspec.structs.replace(self, preset=preset)
        told = {key: getattr(own, key) for key in ("interval_ms", "budget", "default_rules")}
        return msgspec.structs.replace(
            self,
            preset=preset,
            capture={**self.capture, **own.capture},
            rules={**self.rules, **own.rules},
            presets={preset: Preset(base=own.base)},
            **{key: value for key, value in told.items() if value is not None},
        )

    @property
    def base(self) -> str:
        """The built-in preset that the chosen one is made from."""
        return self.presets[self.preset].base if self.preset in self.presets else self.preset


class Configuration(NamedTuple):
    """Settings, and where they were found."""

    settings: Settings
    place: str
    """How errors call it."""
    folder: str
    """What relative files in it are relative to."""

    def capture_items(self) -> tuple[CaptureItem, ...]:
        """The capture tables as wishes."""
        return tuple(_capture_items(self.settings.capture, f"{self.place}: capture"))

    def rule_options(self) -> tuple[RuleOption, ...]:
        """The rules' tables as options."""
        return tuple(_rule_options(self.settings.rules, f"{self.place}: rules"))

    def action_options(self) -> tuple[ActionOption, ...]:
        """The actions as options."""
        options = _action_options(self.settings.on, f"{self.place}: on")
        return tuple(replace(each, folder=self.folder) for each in options)


def load(path: str | None, folder: str) -> Configuration:
    """The settings of a file; without ``path``, of ``leadline.toml`` in ``folder`` if it lies there.

    Raises:
        ConfigurationError: It is no TOML, a key is unknown, or a value has the wrong type.
    """
    chosen = path or os.path.join(folder, FILE_NAME)
    if path is None and not os.path.isfile(chosen):
        return Configuration(Settings(), FILE_NAME, folder)
    try:
        with open(chosen, "rb") as file:
            settings = parse(tomllib.load(file), chosen)
    except OSError as error:
        raise ConfigurationError(f"the configuration {chosen} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{chosen} is no TOML: {error}") from None
    return Configuration(settings, chosen, os.path.dirname(os.path.join(folder, chosen)))


def parse(data: Mapping[str, Any], place: str) -> Settings:
    """Settings from plain values, checked as far as that needs no rule and no action.

    Args:
        place: How errors call the file.
    Raises:
        ConfigurationError: A key is unknown, or a value is none that it takes.
    """
    presets = _table(data.get("presets", {}), f"{place}: presets")
    own = {name: _preset(name, keys, f"{place}: presets.{name}") for name, keys in presets.items()}
    settings = _converted({**data, "presets": {}}, Settings, place)
    settings = msgspec.structs.replace(settings, presets=own)
    check_preset(settings.preset, place, own)
    check_interval(settings.interval_ms, place)
    parse_budget(settings.budget, f"{place}: budget")
    _check_tables(settings.capture, settings.rules, place)
    list(_action_options(settings.on, f"{place}: on"))
    parse_windows(settings.profile, f"{place}: profile")
    for name, target in settings.targets.items():
        _check_target(name, target, f"{place}: targets.{name}")
    return settings


def check_preset(preset: str, where: str, own: Iterable[str] = ()) -> None:
    """Refuse a preset that does not exist.

    Args:
        own: The names of those that the configuration file makes.
    """
    known = (*PRESETS, *own)
    if preset not in known:
        nearest = closest(preset, known)
        ask = f"did you mean {nearest!r}?" if nearest else f"known: {', '.join(known)}"
        raise ConfigurationError(f"{where}: no preset named {preset!r}; {ask}")


def check_interval(interval_ms: int, where: str) -> None:
    """Refuse an interval that the monitor does not know."""
    if interval_ms not in INTERVALS_MS:
        known = ", ".join(map(str, INTERVALS_MS))
        raise ConfigurationError(f"{where}: interval_ms must be one of {known}, not {interval_ms}")


def _preset(name: str, keys: Any, place: str) -> Preset:
    if name in PRESETS or not _NAME.fullmatch(name):
        why = "is Leadline's own" if name in PRESETS else "has other characters than letters, digits, '_' and '-'"
        raise ConfigurationError(f"{place}: the name {why}; choose another")
    preset = _converted(_table(keys, place), Preset, place)
    check_preset(preset.base, f"{place}: base")
    if preset.interval_ms is not None:
        check_interval(preset.interval_ms, place)
    if preset.budget is not None:
        parse_budget(preset.budget, f"{place}: budget")
    _check_tables(preset.capture, preset.rules, place)
    return preset


def _check_tables(capture: Mapping[str, Any], rules: Mapping[str, Any], place: str) -> None:
    list(_capture_items(capture, f"{place}: capture"))
    list(_rule_options(rules, f"{place}: rules"))


def _check_target(name: str, target: str, place: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{place}: a target's name has letters, digits, '_' and '-' only")
    if not target.strip():
        raise ConfigurationError(f"{place} is empty")
    refuse_literal({"it": target}, place)


def _capture_items(tables: Mapping[str, Any], place: str) -> Iterator[CaptureItem]:
    for collection, given in tables.items():
        for keys in given if isinstance(given, (list, tuple)) else (given,):
            table = _table(keys, f"{place}.{collection}")
            with located(f"{place}.{collection}"):
                yield capture_item(collection, table)


def _rule_options(tables: Mapping[str, Any], place: str) -> Iterator[RuleOption]:
    for alias, given in tables.items():
        keys = _table(given, f"{place}.{alias}")
        rule = keys.get("rule", alias)
        if not isinstance(rule, str) or not rule:
            raise ConfigurationError(f"{place}.{alias}.rule: expected the name of a rule, got {rule!r}")
        parameters = {key: value for key, value in keys.items() if key != "rule"}
        yield RuleOption(alias, rule, parameters, f"{place}.{alias}")


def _action_options(tables: Mapping[str, Any], place: str) -> Iterator[ActionOption]:
    for occasion, given in tables.items():
        entries = given if isinstance(given, (list, tuple)) else (given,)
        for number, entry in enumerate(entries, 1):
            which = f", entry {number}" if len(entries) > 1 else ""
            yield action_option(occasion, entry, f"{place}.{_key(occasion)}{which}")


def action_option(occasion: str, entry: Any, where: str) -> ActionOption:
    """What follows an occasion, in words or as a table.

    Args:
        occasion: ``RULE[@status]``.
        entry: The right side of ``--on``, or ``action`` and its parameters.
        where: How errors call it.
    Raises:
        ConfigurationError: It is neither, or something in it is wrong.
    """
    with located(where):
        if isinstance(entry, str):
            return follow_up(occasion, entry, where=where)
        if isinstance(entry, Mapping):
            return follow_up_table(occasion, entry, where=where)
        raise ConfigurationError(f'expected an action, {{action = "notify", …}} or a list of both, got {entry!r}')


def _key(name: str) -> str:
    """A key as TOML writes it."""
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else f'"{name}"'


def _table(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"{place}: expected a table, got {value!r}")
    return value


def _converted(data: Mapping[str, Any], kind: type[T], place: str) -> T:
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{place}: {_spoken(str(error), kind)}") from None


def _spoken(message: str, kind: type) -> str:
    known: tuple[str, ...] = kind.__struct_fields__  # type: ignore[attr-defined]
    unknown = re.match(r"Object contains unknown field `(.*?)`", message)
    if unknown:
        nearest = closest(unknown[1], known)
        ask = f"did you mean {nearest!r}?" if nearest else f"known: {', '.join(known)}"
        return f"no key named {unknown[1]!r}; {ask}"
    wrong = re.match(r"(.*) - at `\$\.?(.*)`", message)
    if wrong:
        return f"{wrong[2]}: {wrong[1][0].lower()}{wrong[1][1:].replace('`', '')}"
    return message
