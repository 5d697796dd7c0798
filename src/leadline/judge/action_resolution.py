"""Resolution of ``--on`` options to actions, and their checks before the training starts."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from leadline.actions import registry
from leadline.actions.action import Action
from leadline.config import secrets
from leadline.config.action_options import ActionOption, action_parameters
from leadline.config.parameters import parameter_types, read_parameters
from leadline.errors import ConfigurationError, MissingExtraError, UnknownNameError
from leadline.records.manifest import ActionSpec
from leadline.records.names import EVERY_RULE, EVERY_STATUS, JOB, JOB_ENDED


def resolve_actions(
    options: Iterable[ActionOption], *, targets: Mapping[str, str], source: str = "option"
) -> list[ActionSpec]:
    """Resolve ``--on`` options to action specifications for the manifest.

    Args:
        targets: The named targets of the configuration file.
        source: Where the options were given: ``option`` or ``config``.
    Raises:
        UnknownNameError: An action, parameter or target does not exist.
        ConfigurationError: A parameter is invalid or missing, or is a secret in plain text.
    """
    return [_resolve_action(option, targets, source) for option in options]


def _resolve_action(option: ActionOption, targets: Mapping[str, str], source: str) -> ActionSpec:
    try:
        kind = registry.find_action(option.action, option.folder)
        given = action_parameters(option, parameter_types(kind), kind.target, targets)
        secrets.refuse_literal(given, option.action)
        parameters = read_parameters(kind, given)
        registry.make_action(option.action, parameters, option.folder)
    except ConfigurationError as error:
        raise ConfigurationError(f"{option.where}: {error}") from None
    return ActionSpec(
        rule=option.rule,
        action=registry.canonical(option.action),
        statuses=_statuses(option, kind),
        parameters={name: list(value) if isinstance(value, tuple) else value for name, value in parameters.items()},
        spoken=_display_name(option, kind),
        folder=option.folder,
        source=source,
    )


def _statuses(option: ActionOption, kind: type[Action]) -> tuple[str, ...]:
    """Return the statuses of the option, else those of the action; for the job, which has others, its final ones."""
    if option.status:
        return (option.status,)
    return tuple(sorted(JOB_ENDED)) if option.rule == JOB and EVERY_STATUS not in kind.statuses else kind.statuses


def _display_name(option: ActionOption, kind: type[Action]) -> str:
    """Return the action as the user wrote it, with its canonical name and, for a file, the last part of the path."""
    name, words = os.path.basename(registry.canonical(option.action)), option.arguments
    if words is None:
        named = {key: value for key, value in option.parameters.items() if key not in ("target", kind.target)}
        target = [str(value) for key, value in option.parameters.items() if key not in named]
        words = ",".join([*target, *(f"{key}={_format_value(value)}" for key, value in named.items())])
    return f"{name}:{words}" if words else name


def _format_value(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(_format_value, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def merge(actions: Iterable[ActionSpec]) -> tuple[ActionSpec, ...]:
    """Remove duplicates."""
    return tuple({repr(replace(spec, spoken="", source="")): spec for spec in actions}.values())


def check_actions(actions: Iterable[ActionSpec], aliases: Collection[str]) -> None:
    """Refuse actions that cannot work, as far as that is known without contacting their targets.

    Raises:
        UnknownNameError: An action, one of its parameters or its rule does not exist.
        ConfigurationError: A parameter is invalid.
    """
    for spec in actions:
        if spec.rule not in (EVERY_RULE, JOB) and spec.rule not in aliases:
            hint = f"--on {spec.rule}={spec.action}; --rule {spec.rule}=RULE would define it"
            raise UnknownNameError("rule of this run", spec.rule, aliases, hint=hint)
        registry.make_action(spec.action, spec.parameters, spec.folder)


def try_actions(actions: Iterable[ActionSpec], environment: Mapping[str, str] = os.environ) -> None:
    """Refuse actions whose variables are not set, whose packages are missing or whose targets do not answer.

    Raises:
        ConfigurationError: A variable is not set, or a target is malformed or cannot be reached.
        MissingExtraError: A package that an action needs is not installed.
    """
    tried = {repr((spec.action, spec.folder, spec.parameters)): spec for spec in actions}
    for spec in tried.values():
        option = f"{'on' if spec.source == 'config' else '--on'} {spec.rule}={spec}"
        kind = registry.find_action(spec.action, spec.folder)
        absent = secrets.missing(spec.parameters, environment, kind.verbatim)
        if absent:
            state = "is empty" if absent[0] in environment else "is not set"
            raise ConfigurationError(f"{option}: the variable {absent[0]} {state}; export it before the start")
        parameters, hidden = secrets.resolve(spec.parameters, environment, kind.verbatim)
        try:
            registry.make_action(spec.action, parameters, spec.folder).check()
        except (ConfigurationError, MissingExtraError) as error:
            kind_of_error = MissingExtraError if isinstance(error, MissingExtraError) else ConfigurationError
            raise kind_of_error(secrets.scrub(f"{option}: {error}", hidden)) from None
