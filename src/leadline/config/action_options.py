"""Syntax of ``--on``: ``RULE[@status]=ACTION[:TARGET][,key=value,…]``."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from leadline.config.options import PARAMETER, TYPO_SIMILARITY, split_name
from leadline.errors import ConfigurationError, UnknownNameError, closest
from leadline.records.names import EVERY_STATUS, JOB, JOB_STATUSES, RULE_STATUSES

_KEYED: Final = re.compile(r"([A-Za-z_]\w*)=")
_VARIABLE: Final = re.compile(r"\$\w+|\$\{\w+\}|@[\w-]+")
"""A target that is only a variable or a named target: nothing but parameters can follow it."""


@dataclass(frozen=True, slots=True)
class ActionOption:
    """``--on RULE[@status]=ACTION[:TARGET][,key=value,…]``, before the parameters of the action are known."""

    rule: str
    """A rule's alias, ``*`` or ``job``."""
    status: str
    """Empty for the default statuses of the action; ``*`` for every status."""
    action: str
    arguments: str | None = None
    """The text after the action's colon; None without a colon."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """The parameters, if the option is a table of the configuration file."""
    folder: str = ""
    """Base of relative paths."""
    where: str = "--on"
    """Prefix of error messages; contains no part that may be secret."""

    @property
    def trigger(self) -> str:
        """``RULE[@status]``, as given."""
        return f"{self.rule}@{self.status}" if self.status else self.rule


def parse_action(text: str) -> ActionOption:
    """Parse ``RULE[@status]=ACTION[:TARGET][,key=value,…]``.

    Raises:
        ConfigurationError: The text is malformed.
        UnknownNameError: No status has that name.
    """
    left, equals, right = text.partition("=")
    if not equals or not left or not right:
        shown = text.partition(":")[0]  # what follows may be secret
        raise ConfigurationError(f"--on {shown!r}: write RULE=ACTION, for example exploding_tensor=stop_training")
    return parse_triggered_action(left, right, where=f"--on {left}={split_name(right)[0]}")


def parse_triggered_action(trigger: str, text: str, *, where: str) -> ActionOption:
    """Parse an action and its parameters, ``ACTION[:TARGET][,key=value,…]``, for a trigger ``RULE[@status]``.

    Args:
        where: Prefix of error messages; must not contain any part that may be secret.
    """
    rule, status = _split_trigger(trigger)
    action, rest = split_name(text)
    if not action:
        raise ConfigurationError("no action given; write RULE=ACTION, for example *=stop_training")
    return ActionOption(rule, status, action, rest if len(text) > len(action) else None, where=where)


def triggered_action_from_table(trigger: str, keys: Mapping[str, Any], *, where: str) -> ActionOption:
    """The action of a trigger, from a table of the configuration file: ``action`` and its parameters."""
    rule, status = _split_trigger(trigger)
    action = keys.get("action")
    if not isinstance(action, str) or not action:
        raise ConfigurationError('missing key action: {action = "notify", target = "$MAIL"}')
    parameters = {key: value for key, value in keys.items() if key != "action"}
    return ActionOption(rule, status, action, None, parameters, where)


def _split_trigger(trigger: str) -> tuple[str, str]:
    rule, at, status = trigger.partition("@")
    if not rule:
        raise ConfigurationError(f"{trigger!r} has no rule; write a rule, * (all rules) or {JOB}")
    known = JOB_STATUSES if rule == JOB else RULE_STATUSES
    if at and status not in (*known, EVERY_STATUS):
        hint = (
            f"for the job: {JOB}@{status}"
            if rule != JOB and status in JOB_STATUSES
            else f"{rule}@* matches every status"
        )
        raise UnknownNameError(f"{'job' if rule == JOB else 'rule'} status", status, known, hint=hint)
    return rule, status


def action_parameters(
    option: ActionOption, fields: Collection[str], target: str | None, targets: Mapping[str, str]
) -> dict[str, Any]:
    """The parameters that an option gives an action; texts stay texts.

    Args:
        fields: The names of the action's parameters.
        target: The parameter that the text after the colon sets; None if the action has no such parameter.
        targets: The named targets of the configuration file: ``@team`` stands for ``targets["team"]``.
    Raises:
        ConfigurationError: The text is not valid for the action.
        UnknownNameError: No parameter or target has that name.
    """
    if option.arguments is None:
        given = {target if key == "target" and target else key: value for key, value in option.parameters.items()}
    else:
        given = _parse_arguments(option, fields, target)
    if target is not None and isinstance(given.get(target), str) and given[target].startswith("@"):
        given[target] = _named_target(given[target][1:], targets)
    return given


def _named_target(name: str, targets: Mapping[str, str]) -> str:
    if name not in targets:
        raise UnknownNameError("target", name, targets, hint="defined in [targets] of leadline.toml")
    return targets[name]


def _parse_arguments(option: ActionOption, fields: Collection[str], target: str | None) -> dict[str, Any]:
    """Parse parameters; a comma begins one only before a known name and ``=``, since URLs may contain commas."""
    first, *rest = _split_at(option.arguments or "", fields)
    given: dict[str, Any] = {}
    if _key_of(first) in fields or target is None:
        rest.insert(0, first)
    elif not first.strip():
        raise ConfigurationError(
            f"no text after the colon; write a $VARIABLE in single quotes, so that the shell does not expand "
            f"it: --on '{option.trigger}={option.action}:$NAME'"
        )
    else:
        given[target] = first
    for part in (first, *rest):
        _refuse_typos(part, fields, option)
    for part in rest:
        key, equals, value = part.partition("=")
        if not equals or not key.isidentifier():
            raise ConfigurationError(f"{option.action} takes key=value after its colon, not {_displayable(part)!r}")
        if key in given:
            raise ConfigurationError(f"{option.action}: {key!r} is given twice")
        given[key] = value
    return given


def _displayable(text: str) -> str:
    """The part of a text that may appear in messages: a URL may be secret."""
    scheme, separator, _ = text.partition("://")
    return f"{scheme}{separator}…" if separator else text


def _split_at(arguments: str, fields: Collection[str]) -> list[str]:
    parts: list[str] = []
    for part in PARAMETER.split(arguments):
        if parts and _key_of(part) not in fields and not _VARIABLE.fullmatch(parts[-1]):
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    return parts


def _key_of(part: str) -> str:
    match = _KEYED.match(part)
    return match[1] if match else ""


def _refuse_typos(text: str, fields: Collection[str], option: ActionOption) -> None:
    """Raise an error for a misspelt parameter, which would otherwise be sent as a part of the target."""
    for key in filter(None, map(_key_of, PARAMETER.split(text))):
        if key not in fields and closest(key, fields, TYPO_SIMILARITY):
            raise UnknownNameError(f"parameter of {option.action}", key, fields)
