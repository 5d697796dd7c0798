"""The configuration file ``leadline.toml``: strictly typed; errors for unknown keys suggest the nearest known key."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from leadline.config.capture import capture_item
from leadline.config.options import ActionEntry, parse_triggered_action
from leadline.config.profile_windows import parse_windows
from leadline.config.run_config import RunConfig, check_interval, check_preset, parse_budget, parse_size
from leadline.config.secrets import refuse_literal
from leadline.errors import ConfigurationError, closest, located
from leadline.records.json_object import JsonObject
from leadline.records.manifest import RuleSpec
from leadline.records.metric_roles import role_error
from leadline.records.names import PRESETS
from leadline.records.patterns import metric_pattern_error
from leadline.records.plan import CaptureItem

FILE_NAME: Final = "leadline.toml"
_OF_PRESETS: Final[Mapping[str, Any]] = {
    "interval_ms": int,
    "budget": str,
    "default_rules": bool,
    "capture": dict[str, Any],
    "rules": dict[str, Any],
}
PRESET_KEYS: Final[Mapping[str, Any]] = {"base": str, **_OF_PRESETS}
"""The keys of a user-defined preset, with their types; they override those at the top of the file."""
KEYS: Final[Mapping[str, Any]] = {
    **_OF_PRESETS,
    "preset": str,
    "out": str,
    "max_disk": str,
    "report": bool,
    "no_rules": tuple[str, ...],
    "on": dict[str, Any],
    "profile": tuple[str, ...],
    "metrics": dict[str, str],
    "roles": dict[str, str],
    "targets": dict[str, str],
    "presets": Any,
}
"""The keys of the file, with their types; their meaning is that of the fields of ``RunConfig``.

``capture``: by collection, a table or a list of tables; ``rules``: by rule or alias, its parameters, and ``rule`` for
an alias; ``on``: by ``RULE[@status]``, the right side of ``--on``, a table of ``action`` and its parameters, or a list.
"""
_NAME: Final = re.compile(r"[A-Za-z_][\w-]*")


def from_toml(path: str | None, folder: str) -> RunConfig:
    """Read a file; without ``path``, ``leadline.toml`` in ``folder`` if it exists.

    Raises:
        ConfigurationError: The file is not valid TOML, a key is unknown, or a value has the wrong type.
    """
    file_path = path or os.path.join(folder, FILE_NAME)
    if path is None and not os.path.isfile(file_path):
        return RunConfig()
    try:
        with open(file_path, "rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise ConfigurationError(f"cannot read the configuration {file_path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file_path} is not valid TOML: {error}") from None
    return from_table(table, file_path, os.path.dirname(os.path.join(folder, file_path)))


def to_toml(config: RunConfig) -> str:
    """Return a configuration as the text of a file."""
    import tomli_w

    return tomli_w.dumps(_without_null(config.to_table()))


def _without_null(value: Any) -> Any:
    """Replace None, which TOML does not have, by the text that is read as None."""
    if isinstance(value, dict):
        return {key: _without_null(item) for key, item in value.items()}
    return [_without_null(item) for item in value] if isinstance(value, list) else "none" if value is None else value


def from_table(data: Mapping[str, Any], source: str, folder: str = "") -> RunConfig:
    """Create a configuration from the content of a file, with all checks that need neither rules nor actions.

    Args:
        source: The name of the file in error messages.
        folder: Base of relative paths.
    Raises:
        ConfigurationError: A key is unknown, or a value is invalid.
    """
    values = _read(data, KEYS, source, folder)
    tables = _table(values.get("presets", {}), f"{source}: presets")
    presets = {name: _preset(name, keys, f"{source}: presets.{name}", folder) for name, keys in tables.items()}
    on = tuple(_action_entries(values.get("on", {}), source, folder))
    config = RunConfig(**{**values, "presets": presets, "on": on, "source": source})
    if config.preset is not None:
        check_preset(config.preset, source, presets)
    parse_windows(config.profile, f"{source}: profile")
    for name, pattern in config.metrics.items():
        why = metric_pattern_error(pattern) if name.strip() else "its metric has no name"
        if why is not None:
            raise ConfigurationError(f"{source}: metrics.{name}: {pattern!r} cannot be used: {why}")
    for name, role in config.roles.items():
        why = role_error(role)
        if why is not None:
            raise ConfigurationError(f"{source}: roles.{name}: {why}")
    for name, target in config.targets.items():
        _check_target(name, target, f"{source}: targets.{name}")
    return config


def _preset(name: str, keys: Any, where: str, folder: str) -> RunConfig:
    if name in PRESETS or not _NAME.fullmatch(name):
        why = "is a built-in preset" if name in PRESETS else "may contain only letters, digits, '_' and '-'"
        raise ConfigurationError(f"{where}: the name {why}; choose another name")
    values = _read(_table(keys, where), PRESET_KEYS, where, folder)
    base = values.pop("base", "standard")
    check_preset(base, f"{where}: base")
    return RunConfig(preset=base, **values)


def _read(data: Mapping[str, Any], kinds: Mapping[str, Any], where: str, folder: str) -> JsonObject:
    """Check the keys of a file or preset, and read those that both can have."""
    for key in data:
        if key not in kinds:
            nearest = closest(key, kinds)
            hint = f"did you mean {nearest!r}?" if nearest else f"known: {', '.join(kinds)}"
            raise ConfigurationError(f"{where}: no key named {key!r}; {hint}")
    values = {key: _convert(value, kinds[key], f"{where}: {key}") for key, value in data.items()}
    if "interval_ms" in values:
        check_interval(values["interval_ms"], f"{where}: interval_ms")
    if "budget" in values:
        parse_budget(values["budget"], f"{where}: budget")
    if "max_disk" in values:
        parse_size(values["max_disk"], f"{where}: max_disk")
    values["capture"] = tuple(_capture_items(values.get("capture", {}), f"{where}: capture"))
    values["rules"] = tuple(_rule_specs(values.get("rules", {}), f"{where}: rules", folder))
    return values


def _convert(value: Any, kind: Any, where: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        message = str(error).partition(" - at ")[0].replace("`", "")
        raise ConfigurationError(f"{where}: {message[0].lower()}{message[1:]}") from None


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


def _rule_specs(tables: Mapping[str, Any], where: str, folder: str) -> Iterator[RuleSpec]:
    for alias, given in tables.items():
        keys = _table(given, f"{where}.{alias}")
        rule = keys.get("rule", alias)
        if not isinstance(rule, str) or not rule:
            raise ConfigurationError(f"{where}.{alias}.rule: expected the name of a rule, got {rule!r}")
        parameters = {key: value for key, value in keys.items() if key != "rule"}
        yield RuleSpec(alias, rule, parameters, folder, "config")


def _action_entries(tables: Mapping[str, Any], source: str, folder: str) -> Iterator[ActionEntry]:
    for trigger, given in tables.items():
        key = trigger if re.fullmatch(r"[\w-]+", trigger, re.ASCII) else f'"{trigger}"'
        entries = given if isinstance(given, (list, tuple)) else (given,)
        for number, entry in enumerate(entries, 1):
            which = f", entry {number}" if len(entries) > 1 else ""
            yield parse_triggered_action(trigger, entry, folder, "config", f"{source}: on.{key}{which}")


def _table(value: Any, where: str) -> JsonObject:
    if not isinstance(value, dict):
        raise ConfigurationError(f"{where}: expected a table, got {value!r}")
    return value
