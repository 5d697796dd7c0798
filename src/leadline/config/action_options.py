"""What shall follow a verdict, as it is written: ``RULE[@status]=ACTION[:TARGET][,key=value,…]``."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from leadline.config.options import PARAMETER, TYPING_ERROR, split_name
from leadline.errors import ConfigurationError, UnknownNameError, closest
from leadline.records.names import EVERY_STATUS, JOB, JOB_STATUSES, RULE_STATUSES

_KEYED: Final = re.compile(r"([A-Za-z_]\w*)=")
_VARIABLE: Final = re.compile(r"\$\w+|\$\{\w+\}|@[\w-]+")
"""All of a target that stands for something else: nothing can follow it but parameters."""


@dataclass(frozen=True, slots=True)
class ActionOption:
    """``--on RULE[@status]=ACTION[:TARGET][:,key=value,…]``, before it is known what the action takes."""

    rule: str
    """An alias, ``*`` or ``job``."""
    status: str
    """"": those that the action follows by itself; ``*``: every one."""
    action: str
    words: str | None = None
    """What stands behind the action's colon; None: there is no colon."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """Those of a table of the configuration file."""
    folder: str = ""
    """What a relative file is relative to."""
    where: str = "--on"
    """How errors call it; without anything that may be secret."""

    @property
    def occasion(self) -> str:
        """``RULE[@status]``, as it was written."""
        return f"{self.rule}@{self.status}" if self.status else self.rule


def parse_action(text: str) -> ActionOption:
    """``RULE[@status]=ACTION[:TARGET][,key=value,…]``.

    Raises:
        ConfigurationError: It has another form.
        UnknownNameError: No status has that name.
    """
    left, equals, right = text.partition("=")
    if not equals or not left or not right:
        shown = text.partition(":")[0]  # what follows may be secret
        raise ConfigurationError(f"--on {shown!r}: write RULE=ACTION, for example exploding_tensor=stop_training")
    return follow_up(left, right, where=f"--on {left}={split_name(right)[0]}")


def follow_up(occasion: str, deed: str, *, where: str) -> ActionOption:
    """What follows an occasion, ``RULE[@status]``: ``ACTION[:TARGET][,key=value,…]``.

    Args:
        where: How errors call it; without anything that may be secret.
    """
    rule, status = _split_occasion(occasion)
    action, rest = split_name(deed)
    if not action:
        raise ConfigurationError("there is no action; write RULE=ACTION, for example *=stop_training")
    return ActionOption(rule, status, action, rest if len(deed) > len(action) else None, where=where)


def follow_up_table(occasion: str, keys: Mapping[str, Any], *, where: str) -> ActionOption:
    """What follows an occasion, as a table of the configuration file has it: ``action`` and its parameters."""
    rule, status = _split_occasion(occasion)
    action = keys.get("action")
    if not isinstance(action, str) or not action:
        raise ConfigurationError('name the action: {action = "notify", target = "$MAIL"}')
    parameters = {key: value for key, value in keys.items() if key != "action"}
    return ActionOption(rule, status, action, None, parameters, where)


def _split_occasion(occasion: str) -> tuple[str, str]:
    rule, at, status = occasion.partition("@")
    if not rule:
        raise ConfigurationError(f"{occasion!r} begins with no rule; write a rule, * (every one) or {JOB}")
    known = JOB_STATUSES if rule == JOB else RULE_STATUSES
    if at and status not in (*known, EVERY_STATUS):
        hint = f"of the job: {JOB}@{status}" if rule != JOB and status in JOB_STATUSES else f"{rule}@* is every one"
        raise UnknownNameError(f"{'job' if rule == JOB else 'rule'} status", status, known, hint=hint)
    return rule, status


def action_parameters(
    option: ActionOption, fields: Collection[str], target: str | None, targets: Mapping[str, str]
) -> dict[str, Any]:
    """The parameters that an option gives an action, as texts where they were texts.

    Args:
        fields: The names of the action's parameters.
        target: The one of them that the text behind the colon gives; None: there is none.
        targets: The named targets of the configuration file: ``@team`` stands for ``targets["team"]``.
    Raises:
        ConfigurationError: The words fit no action of that kind.
        UnknownNameError: No parameter or target has that name.
    """
    if option.words is None:
        given = {target if key == "target" and target else key: value for key, value in option.parameters.items()}
    else:
        given = _split_words(option, fields, target)
    if target is not None and isinstance(given.get(target), str) and given[target].startswith("@"):
        given[target] = _named_target(given[target][1:], targets)
    return given


def _named_target(name: str, targets: Mapping[str, str]) -> str:
    if name not in targets:
        raise UnknownNameError("target", name, targets, hint="[targets] of leadline.toml names them")
    return targets[name]


def _split_words(option: ActionOption, fields: Collection[str], target: str | None) -> dict[str, Any]:
    """A comma begins a parameter only where the name of one and ``=`` follow it: URLs have commas too."""
    first, *rest = _split_at(option.words or "", fields)
    given: dict[str, Any] = {}
    if _key_of(first) in fields or target is None:
        rest.insert(0, first)
    elif not first.strip():
        raise ConfigurationError(
            f"nothing stands behind the colon; a $VARIABLE belongs in single quotes, so that the shell leaves it "
            f"alone: --on '{option.occasion}={option.action}:$NAME'"
        )
    else:
        given[target] = first
    for part in (first, *rest):
        _refuse_slips(part, fields, option)
    for part in rest:
        key, equals, value = part.partition("=")
        if not equals or not key.isidentifier():
            raise ConfigurationError(f"{option.action} takes key=value behind its colon, not {_shown(part)!r}")
        if key in given:
            raise ConfigurationError(f"{option.action} is given {key!r} twice")
        given[key] = value
    return given


def _shown(text: str) -> str:
    """What of a text may be repeated: a URL may be secret."""
    scheme, separator, _ = text.partition("://")
    return f"{scheme}{separator}…" if separator else text


def _split_at(words: str, fields: Collection[str]) -> list[str]:
    parts: list[str] = []
    for part in PARAMETER.split(words):
        if parts and _key_of(part) not in fields and not _VARIABLE.fullmatch(parts[-1]):
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    return parts


def _key_of(part: str) -> str:
    found = _KEYED.match(part)
    return found[1] if found else ""


def _refuse_slips(text: str, fields: Collection[str], option: ActionOption) -> None:
    """A parameter that is misspelt would else be sent as a part of the target."""
    for key in filter(None, map(_key_of, PARAMETER.split(text))):
        if key not in fields and closest(key, fields, TYPING_ERROR):
            raise UnknownNameError(f"parameter of {option.action}", key, fields)
