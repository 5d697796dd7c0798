"""Resolution of the actions of a configuration, and their checks before the training starts."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from leadline.actions import registry
from leadline.actions.action import Action
from leadline.config import variables
from leadline.config.options import ActionEntry, action_parameters, format_value
from leadline.config.parameters import parameter_types
from leadline.config.secrets import refuse_literal, scrub
from leadline.errors import ConfigurationError, MissingExtraError, UnknownNameError, located
from leadline.records.manifest import ActionSpec
from leadline.records.names import EVERY_RULE, EVERY_STATUS, JOB, JOB_ENDED


def resolve_action(entry: ActionEntry, targets: Mapping[str, str]) -> tuple[ActionEntry, ActionSpec]:
    """Resolve an action to its specification for the manifest.

    Args:
        targets: The named targets of the configuration file: ``@team`` stands for ``targets["team"]``.
    Returns:
        The entry with its parameters by name, and the specification.
    Raises:
        UnknownNameError: An action, parameter or target does not exist.
        ConfigurationError: A parameter is invalid or missing, or is a secret in plain text.
    """
    with located(entry.where):
        kind = registry.find_action(entry.action, entry.folder)
        given = action_parameters(entry, parameter_types(kind), kind.target)
        parameters = {
            name: _named_target(value, targets) if name == kind.target else value for name, value in given.items()
        }
        refuse_literal(parameters, entry.action)
        action = registry.make_action(entry.action, parameters, entry.folder)
    values = {name: getattr(action, name) for name in parameters}
    spec = ActionSpec(
        rule=entry.rule,
        action=registry.canonical(entry.action),
        statuses=(entry.status,) if entry.status else default_statuses(kind, entry.rule),
        parameters={name: list(value) if isinstance(value, tuple) else value for name, value in values.items()},
        display_name=_display_name(entry, kind),
        folder=entry.folder,
        source=entry.source,
    )
    return replace(entry, arguments=given), spec


def _named_target(value: Any, targets: Mapping[str, str]) -> Any:
    if not isinstance(value, str) or not value.startswith("@"):
        return value
    if value[1:] not in targets:
        raise UnknownNameError("target", value[1:], targets, hint="defined in [targets] of leadline.toml")
    return targets[value[1:]]


def default_statuses(kind: type[Action], rule: str) -> tuple[str, ...]:
    """Return the statuses that trigger an action if none is given; for the job, which has others, its final ones."""
    return tuple(sorted(JOB_ENDED)) if rule == JOB and EVERY_STATUS not in kind.statuses else kind.statuses


def _display_name(entry: ActionEntry, kind: type[Action]) -> str:
    """Return the action as the user wrote it, with its canonical name and, for a file, the last part of the path."""
    name, arguments = os.path.basename(registry.canonical(entry.action)), entry.arguments or {}
    if not isinstance(arguments, str):
        target = [str(value) for key, value in arguments.items() if key in ("target", kind.target)]
        others = {key: value for key, value in arguments.items() if key not in ("target", kind.target)}
        arguments = ",".join([*target, *(f"{key}={format_value(value)}" for key, value in others.items())])
    return f"{name}:{arguments}" if arguments else name


def distinct(actions: Iterable[ActionSpec]) -> tuple[ActionSpec, ...]:
    """Return actions without duplicates."""
    return tuple({repr(replace(spec, display_name="", source="")): spec for spec in actions}.values())


def check_triggers(actions: Iterable[ActionSpec], aliases: Collection[str]) -> None:
    """Refuse actions on rules that the run does not have.

    Raises:
        UnknownNameError: There is no such rule.
    """
    for spec in actions:
        if spec.rule not in (EVERY_RULE, JOB) and spec.rule not in aliases:
            hint = f"--on {spec.rule}={spec.action}; --rule {spec.rule}=RULE would define it"
            raise UnknownNameError("rule of this run", spec.rule, aliases, hint=hint)


def try_actions(actions: Iterable[ActionSpec], environment: Mapping[str, str] = os.environ) -> None:
    """Refuse actions whose variables are not set, whose packages are missing or whose targets do not answer.

    Raises:
        ConfigurationError: A variable is not set, or a target is malformed or cannot be reached.
        MissingExtraError: A package that an action needs is not installed.
    """
    for spec in distinct_actions(actions):
        option = f"{'on' if spec.source == 'config' else '--on'} {spec.rule}={spec}"
        try:
            check_action(spec, environment)
        except MissingExtraError as error:
            raise MissingExtraError(f"{option}: {error}") from None
        except ConfigurationError as error:
            raise ConfigurationError(f"{option}: {error}") from None


def distinct_actions(actions: Iterable[ActionSpec]) -> tuple[ActionSpec, ...]:
    """Return the actions that differ in more than what triggers them."""
    return tuple({repr((spec.action, spec.folder, spec.parameters)): spec for spec in actions}.values())


def check_action(spec: ActionSpec, environment: Mapping[str, str] = os.environ) -> None:
    """Refuse an action whose variables are not set, whose packages are missing or whose target does not answer.

    Raises:
        ConfigurationError: A variable is not set, or a target is malformed or cannot be reached.
        MissingExtraError: A package that it needs is not installed.
    """
    kind = registry.find_action(spec.action, spec.folder)
    absent = variables.missing(spec.parameters, environment, kind.verbatim)
    if absent:
        state = "is empty" if absent[0] in environment else "is not set"
        raise ConfigurationError(f"the variable {absent[0]} {state}; export it before the start")
    parameters, hidden = variables.resolve(spec.parameters, environment, kind.verbatim)
    try:
        registry.make_action(spec.action, parameters, spec.folder).check()
    except (ConfigurationError, MissingExtraError) as error:
        kind_of_error = MissingExtraError if isinstance(error, MissingExtraError) else ConfigurationError
        raise kind_of_error(scrub(str(error), hidden)) from None
