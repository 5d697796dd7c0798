"""The configuration file ``leadline.toml``: strictly typed, unknown keys refused with the nearest known one."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from leadline.config.budget import DEFAULT_BUDGET, parse_budget
from leadline.config.options import ActionOption, RuleOption, capture_item, parse_action
from leadline.errors import ConfigurationError, closest
from leadline.records.names import PRESETS
from leadline.records.plan import CaptureItem

FILE_NAME: Final = "leadline.toml"
INTERVALS_MS: Final = (100, 200, 500, 1000, 5000, 60000)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every key of the configuration file."""

    preset: str = "standard"
    """light, standard, full or sagemaker."""
    out: str | None = None
    """The folder below which runs stand."""
    interval_ms: int = 500
    """How often the machine is sampled."""
    budget: str = DEFAULT_BUDGET
    """The share of the step time that what presets and rules ask may take: ``2%``, or ``off``."""
    default_rules: bool = True
    """Whether the preset's own rules judge."""
    capture: dict[str, dict[str, Any]] = {}
    """By collection, the keys of ``--capture``."""
    rules: dict[str, dict[str, Any]] = {}
    """By rule or alias, its parameters; ``rule`` names the rule of an alias."""
    on: dict[str, str] = {}
    """By ``RULE[@status]``, the action: the right side of ``--on``."""

    def capture_items(self) -> tuple[CaptureItem, ...]:
        """The capture tables as wishes."""
        return tuple(capture_item(collection, keys) for collection, keys in self.capture.items())

    def rule_options(self) -> tuple[RuleOption, ...]:
        """The rules' tables as options."""
        return tuple(
            RuleOption(alias, str(keys.get("rule", alias)), {k: v for k, v in keys.items() if k != "rule"})
            for alias, keys in self.rules.items()
        )

    def action_options(self) -> tuple[ActionOption, ...]:
        """The actions as options."""
        return tuple(parse_action(f"{rule}={action}") for rule, action in self.on.items())


def load(path: str | None, folder: str) -> Settings:
    """The settings of a file; without ``path``, of ``leadline.toml`` in ``folder`` if it lies there.

    Raises:
        ConfigurationError: It is no TOML, a key is unknown, or a value has the wrong type.
    """
    chosen = path or os.path.join(folder, FILE_NAME)
    if path is None and not os.path.isfile(chosen):
        return Settings()
    try:
        with open(chosen, "rb") as file:
            return parse(tomllib.load(file), chosen)
    except OSError as error:
        raise ConfigurationError(f"the configuration {chosen} cannot be read: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{chosen} is no TOML: {error}") from None


def parse(data: Mapping[str, Any], where: str) -> Settings:
    """Settings from plain values, checked."""
    try:
        settings = msgspec.convert(data, Settings)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{where}: {_spoken(str(error))}") from None
    check_preset(settings.preset, where)
    check_interval(settings.interval_ms, where)
    parse_budget(settings.budget, f"{where}: budget")
    return settings


def check_preset(preset: str, where: str) -> None:
    """Refuse a preset that does not exist."""
    if preset not in PRESETS:
        nearest = closest(preset, PRESETS)
        ask = f"did you mean {nearest!r}?" if nearest else f"known: {', '.join(PRESETS)}"
        raise ConfigurationError(f"{where}: no preset named {preset!r}; {ask}")


def check_interval(interval_ms: int, where: str) -> None:
    """Refuse an interval that the monitor does not know."""
    if interval_ms not in INTERVALS_MS:
        known = ", ".join(map(str, INTERVALS_MS))
        raise ConfigurationError(f"{where}: interval_ms must be one of {known}, not {interval_ms}")


def _spoken(message: str) -> str:
    unknown = re.match(r"Object contains unknown field `(\w+)`(?: - at `\$\.?(.*)`)?", message)
    if unknown:
        nearest = closest(unknown[1], Settings.__struct_fields__)
        ask = f"did you mean {nearest!r}?" if nearest else f"known: {', '.join(Settings.__struct_fields__)}"
        return f"no key named {unknown[1]!r}; {ask}"
    wrong = re.match(r"(.*) - at `\$\.?(.*)`", message)
    if wrong:
        return f"{wrong[2]}: {wrong[1][0].lower()}{wrong[1][1:].replace('`', '')}"
    return message
