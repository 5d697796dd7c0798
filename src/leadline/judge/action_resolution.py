"""What is to follow the rules' findings and the job's ends: worked out, and tried, before the training starts."""

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
    """What ``--on`` options mean, as the manifest has it.

    Args:
        targets: The named targets of the configuration file.
        source: Where they stand: ``option`` or ``config``.
    Raises:
        UnknownNameError: An action, parameter or target does not exist.
        ConfigurationError: A parameter is refused or missing, or is a secret that is given as it is.
    """
    return [_resolve_action(each, targets, source) for each in options]


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
        parameters={name: list(each) if isinstance(each, tuple) else each for name, each in parameters.items()},
        spoken=_spoken(option, kind),
        folder=option.folder,
        source=source,
    )


def _statuses(option: ActionOption, kind: type[Action]) -> tuple[str, ...]:
    """Those asked for, or the action's own; of the job, which has others, its ends."""
    if option.status:
        return (option.status,)
    return tuple(sorted(JOB_ENDED)) if option.rule == JOB and EVERY_STATUS not in kind.statuses else kind.statuses


def _spoken(option: ActionOption, kind: type[Action]) -> str:
    """How people are told of it: as it was written, the name its own, of a file's path the end."""
    name, words = os.path.basename(registry.canonical(option.action)), option.words
    if words is None:
        given = {key: each for key, each in option.parameters.items() if key not in ("target", kind.target)}
        target = [str(each) for key, each in option.parameters.items() if key not in given]
        words = ",".join([*target, *(f"{key}={_word(each)}" for key, each in given.items())])
    return f"{name}:{words}" if words else name


def _word(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(_word, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def merge(actions: Iterable[ActionSpec]) -> tuple[ActionSpec, ...]:
    """Each that is asked for several times, once."""
    return tuple({repr(replace(each, spoken="", source="")): each for each in actions}.values())


def check_actions(actions: Iterable[ActionSpec], aliases: Collection[str]) -> None:
    """Refuse actions that could not run, as far as can be said without looking outside.

    Raises:
        UnknownNameError: An action, one of its parameters or its rule does not exist.
        ConfigurationError: A parameter is refused.
    """
    for spec in actions:
        if spec.rule not in (EVERY_RULE, JOB) and spec.rule not in aliases:
            hint = f"--on {spec.rule}={spec.action}; --rule {spec.rule}=RULE would define it"
            raise UnknownNameError("rule of this run", spec.rule, aliases, hint=hint)
        registry.make_action(spec.action, spec.parameters, spec.folder)


def try_actions(actions: Iterable[ActionSpec], environment: Mapping[str, str] = os.environ) -> None:
    """Refuse actions that will not work: their variables, what must be installed, and whether their targets answer.

    Raises:
        ConfigurationError: A variable is not set, or a target is malformed or cannot be reached.
        MissingExtraError: What an action needs is not installed.
    """
    tried = {repr((each.action, each.folder, each.parameters)): each for each in actions}
    for spec in tried.values():
        where = f"{'on' if spec.source == 'config' else '--on'} {spec.rule}={spec}"
        kind = registry.find_action(spec.action, spec.folder)
        absent = secrets.missing(spec.parameters, environment, kind.verbatim)
        if absent:
            state = "is empty" if absent[0] in environment else "is not set"
            raise ConfigurationError(f"{where}: the variable {absent[0]} {state}; export it before the start")
        parameters, hidden = secrets.resolve(spec.parameters, environment, kind.verbatim)
        try:
            registry.make_action(spec.action, parameters, spec.folder).check()
        except (ConfigurationError, MissingExtraError) as error:
            kind_of_error = MissingExtraError if isinstance(error, MissingExtraError) else ConfigurationError
            raise kind_of_error(secrets.scrub(f"{where}: {error}", hidden)) from None
