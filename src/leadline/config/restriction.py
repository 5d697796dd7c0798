"""What a configuration may do that nobody has named or trusted: that of a cloned folder, or of another run."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from leadline.config import trust
from leadline.config.run_config import RunConfig
from leadline.config.store_uri import is_uri
from leadline.config.toml_file import FILE_NAME, from_toml
from leadline.records.manifest import RuleSpec


def folder_config(folder: str) -> RunConfig:
    """Read the ``leadline.toml`` of a folder, which may be somebody else's: what would act outside of it is left out.

    Without being asked, the file chooses captures, built-in rules and rules in files of its folder, where the
    training script is as well. Nobody has named it, so it runs no command, sends nothing, and imports nothing else.

    Raises:
        ConfigurationError: The file is invalid.
    """
    config, path = from_toml(None, folder), os.path.join(folder, FILE_NAME)
    restricted = restrict(config, lambda spec: _is_inside(spec, folder))
    return config if not restricted.left_out or trust.is_trusted(_digest(path)) else restricted


def trust_file(path: str) -> tuple[str, ...]:
    """Trust a configuration file until it changes; return what it would otherwise not do.

    Raises:
        ConfigurationError: The file is invalid.
        OSError: That cannot be remembered.
    """
    folder = os.path.dirname(os.path.abspath(path))
    left_out = restrict(from_toml(path, os.getcwd()), lambda spec: _is_inside(spec, folder)).left_out
    if left_out:
        trust.remember(_digest(path), f"the configuration {os.path.realpath(path)}")
    return left_out


def restrict(config: RunConfig, may_import: Callable[[RuleSpec], bool] = lambda spec: False) -> RunConfig:
    """Return a configuration without what it needs trust for, and with the names of that in ``left_out``.

    Args:
        may_import: Returns whether a custom rule may be imported all the same.
    """
    foreign = {spec.alias: spec for spec in _rules(config) if trust.is_foreign(spec.rule) and not may_import(spec)}
    outside = [entry for entry in config.on if trust.acts_outside(entry.action) or entry.rule in foreign]
    sends = config.out is not None and is_uri(config.out)
    names = [*(f"rule {alias} ({spec.rule})" for alias, spec in foreign.items())]
    names += [f"on {entry.trigger} {entry.action}" for entry in outside]
    names += [f"out {config.out}"] if sends else []
    if not names:
        return config
    presets = {name: _without(preset, foreign) for name, preset in config.presets.items()}
    return replace(
        _without(config, foreign),
        on=tuple(entry for entry in config.on if entry not in outside),
        no_rules=tuple(name for name in config.no_rules if name not in foreign),
        out=None if sends else config.out,
        presets=presets,
        left_out=tuple(dict.fromkeys(names)),
    )


def _rules(config: RunConfig) -> list[RuleSpec]:
    return [*config.rules, *(spec for preset in config.presets.values() for spec in preset.rules)]


def _without(config: RunConfig, foreign: dict[str, RuleSpec]) -> RunConfig:
    left_out = list(foreign.values())
    return replace(config, rules=tuple(spec for spec in config.rules if spec not in left_out))


def _is_inside(spec: RuleSpec, folder: str) -> bool:
    """Return whether the code of a rule is a file in a folder, also after links were followed."""
    where = spec.rule.rpartition(":")[0]
    stem = where.replace(".", os.sep)
    files = [where] if where.endswith(".py") else [f"{stem}.py", os.path.join(stem, "__init__.py")]
    top = os.path.join(os.path.realpath(folder), "")
    paths = [os.path.realpath(os.path.join(folder, file)) for file in files]
    return any(path.startswith(top) and os.path.isfile(path) for path in paths)


def _digest(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return trust.digest_of_file(path, file.read())
    except OSError:
        return ""
