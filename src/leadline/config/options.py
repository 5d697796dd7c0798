"""Syntax of options: ``[ALIAS=]NAME[:key=value,…]`` and ``RULE[@status]=ACTION[:TARGET][,key=value,…]``."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from leadline.errors import ConfigurationError, UnknownNameError, closest, located
from leadline.records.json_object import JsonObject
from leadline.records.manifest import RuleSpec
from leadline.records.names import EVERY_STATUS, JOB, JOB_STATUSES, RULE_STATUSES

TYPO_SIMILARITY: Final = 0.84
"""Names at least this similar to a known name are reported as misspelt."""
_PARAMETER: Final = re.compile(r",(?=[A-Za-z_]\w*=)")
"""A comma that may begin a parameter."""
_ALIAS: Final = re.compile(r"^([A-Za-z_][\w-]*)=(.+)$", re.DOTALL)
_KEYED: Final = re.compile(r"([A-Za-z_]\w*)=")
_VARIABLE: Final = re.compile(r"\$\w+|\$\{\w+\}|@[\w-]+")
"""A target that is only a variable or a named target: nothing but parameters can follow it."""


@dataclass(frozen=True, slots=True)
class ActionEntry:
    """An action of ``--on`` or of ``[on]``, before its class is known."""

    rule: str
    """A rule's alias, ``*`` or ``job``."""
    status: str
    """Empty for the default statuses of the action; ``*`` for every status."""
    action: str
    arguments: str | JsonObject | None = None
    """The parameters, or the text after the action's colon, which only its class can split; None without a colon."""
    folder: str = ""
    """Base of relative paths."""
    source: str = "option"
    """``option`` or ``config``."""
    where: str = "--on"
    """Prefix of error messages; contains no part that may be secret."""

    @property
    def trigger(self) -> str:
        """``RULE[@status]``, as given."""
        return f"{self.rule}@{self.status}" if self.status else self.rule


def parse_spec(text: str, *, option: str) -> tuple[str, JsonObject]:
    """Parse ``NAME[:key=value,…]``: the first colon ends the name; a comma begins a parameter before ``identifier=``.

    If the name is a file, its own colon belongs to the name: ``my_rules.py:LossAbove:limit=3``. The parameters may
    also be a JSON object.

    Raises:
        ConfigurationError: The text is malformed.
    """
    name, rest = split_name(text)
    if not name:
        raise ConfigurationError(f"--{option} {text!r} has no name; write NAME or NAME:key=value,key=value")
    parameters = _from_json(rest)
    if parameters is not None:
        return name, parameters
    parameters = {}
    for part in _PARAMETER.split(rest) if rest else []:
        key, equals, value = part.partition("=")
        if not equals or not key.isidentifier():
            raise ConfigurationError(f"--{option} {text!r}: {part!r} is not key=value")
        if key in parameters:
            raise ConfigurationError(f"--{option} {text!r} gives {key!r} twice; separate list items by commas")
        parameters[key] = value
    return name, parameters


def format_spec(name: str, parameters: Mapping[str, Any]) -> str:
    """Return the text that ``parse_spec`` reads: with ``key=value``, or with JSON if that would be ambiguous."""
    if not parameters:
        return name
    values = {key: format_value(value) for key, value in parameters.items()}
    text = f"{name}:{','.join(f'{key}={value}' for key, value in values.items())}"
    try:
        is_clear = text == text.strip() and parse_spec(text, option="") == (name, values)
    except ConfigurationError:
        is_clear = False
    return text if is_clear else f"{name}:{json.dumps(parameters, ensure_ascii=False)}"


def format_value(value: Any) -> str:
    """Return the text from which the value of a parameter is read."""
    if isinstance(value, (list, tuple)):
        items = list(map(format_value, value))
        text = ",".join(items)
        is_clear = text.lower() != "none" and text[:1] not in ("", "[")
        is_clear = is_clear and all(item and item == item.strip() and "," not in item for item in items)
        return text if is_clear else json.dumps(list(value), ensure_ascii=False)
    return value if isinstance(value, str) else "none" if value is None else str(value).lower()


def _from_json(text: str) -> JsonObject | None:
    try:
        return dict(json.loads(text)) if text.startswith("{") else None
    except ValueError:
        return None


def split_name(text: str) -> tuple[str, str]:
    """Split a text at the colon after the name; a file or module keeps the colon before its class."""
    first, _, rest = text.partition(":")
    is_class_path = first.endswith(".py") or ("." in first and first.replace(".", "").isidentifier())
    if is_class_path and rest:
        name, _, rest = rest.partition(":")
        return f"{first}:{name}", rest
    return first, rest


def parse_rule(text: str, folder: str = "") -> RuleSpec:
    """Parse ``[ALIAS=]NAME[:key=value,…]``; without an alias, it is empty.

    Args:
        folder: Base of a relative file.
    Raises:
        ConfigurationError: The text is malformed.
    """
    head, colon, rest = text.partition(":")
    match = _ALIAS.match(head)
    alias, body = (match[1], match[2] + colon + rest) if match else ("", text)
    return RuleSpec(alias, *parse_spec(body, option="rule"), folder, "option")


def parse_action(text: str, folder: str = "") -> ActionEntry:
    """Parse ``RULE[@status]=ACTION[:TARGET][,key=value,…]``.

    Args:
        folder: Base of a relative file.
    Raises:
        ConfigurationError: The text is malformed.
        UnknownNameError: No status has that name.
    """
    left, equals, right = text.partition("=")
    if not equals or not left or not right:
        shown = text.partition(":")[0]  # what follows may be secret
        raise ConfigurationError(f"--on {shown!r}: write RULE=ACTION, for example exploding_tensor=stop_training")
    return _action_entry(left, right, folder, "option", f"--on {left}={split_name(right)[0]}")


def parse_triggered_action(trigger: str, given: Any, folder: str, source: str, where: str) -> ActionEntry:
    """Parse one entry of an ``on`` table.

    Args:
        trigger: ``RULE[@status]``.
        given: The right side of ``--on``, or a table of ``action`` and its parameters.
        where: Prefix of error messages.
    Raises:
        ConfigurationError: The entry is neither, or is invalid.
    """
    with located(where):
        return _action_entry(trigger, given, folder, source, where)


def _action_entry(trigger: str, given: Any, folder: str, source: str, where: str) -> ActionEntry:
    rule, status = _split_trigger(trigger)
    arguments: str | JsonObject | None
    if isinstance(given, str):
        action, rest = split_name(given)
        if not action:
            raise ConfigurationError("no action given; write RULE=ACTION, for example *=stop_training")
        arguments = rest if len(given) > len(action) else None
    elif isinstance(given, Mapping):
        action, arguments = given.get("action", ""), {key: value for key, value in given.items() if key != "action"}
        if not isinstance(action, str) or not action:
            raise ConfigurationError('missing key action: {action = "notify", target = "$MAIL"}')
    else:
        raise ConfigurationError(f'expected an action, {{action = "notify", …}} or a list of both, got {given!r}')
    return ActionEntry(rule, status, action, arguments, folder, source, where)


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


def action_parameters(entry: ActionEntry, fields: Collection[str], target: str | None) -> JsonObject:
    """Return the parameters that an entry gives its action; texts stay texts.

    Args:
        fields: The names of the action's parameters.
        target: The parameter that the text after the colon sets; None if the action has no such parameter.
    Raises:
        ConfigurationError: The text is not valid for the action.
        UnknownNameError: No parameter has that name.
    """
    given = _from_json(entry.arguments) if isinstance(entry.arguments, str) else entry.arguments or {}
    if given is None:
        return _split_arguments(entry, str(entry.arguments), fields, target)
    return {target if key == "target" and target else key: value for key, value in given.items()}


def _split_arguments(entry: ActionEntry, arguments: str, fields: Collection[str], target: str | None) -> JsonObject:
    """Split parameters; a comma begins one only before a known name and ``=``, since URLs may contain commas."""
    first, *rest = _split_at(arguments, fields)
    given: JsonObject = {}
    if _key_of(first) in fields or target is None:
        rest.insert(0, first)
    elif not first.strip():
        raise ConfigurationError(
            f"no text after the colon; write a $VARIABLE in single quotes, so that the shell does not expand "
            f"it: --on '{entry.trigger}={entry.action}:$NAME'"
        )
    else:
        given[target] = first
    for part in (first, *rest):
        _refuse_typos(part, fields, entry)
    for part in rest:
        key, equals, value = part.partition("=")
        if not equals or not key.isidentifier():
            raise ConfigurationError(f"{entry.action} takes key=value after its colon, not {_displayable(part)!r}")
        if key in given:
            raise ConfigurationError(f"{entry.action}: {key!r} is given twice")
        given[key] = value
    return given


def _displayable(text: str) -> str:
    """The part of a text that may appear in messages: a URL may be secret."""
    scheme, separator, _ = text.partition("://")
    return f"{scheme}{separator}…" if separator else text


def _split_at(arguments: str, fields: Collection[str]) -> list[str]:
    parts: list[str] = []
    for part in _PARAMETER.split(arguments):
        if parts and _key_of(part) not in fields and not _VARIABLE.fullmatch(parts[-1]):
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    return parts


def _key_of(part: str) -> str:
    match = _KEYED.match(part)
    return match[1] if match else ""


def _refuse_typos(text: str, fields: Collection[str], entry: ActionEntry) -> None:
    """Raise an error for a misspelt parameter, which would otherwise be sent as a part of the target."""
    for key in filter(None, map(_key_of, _PARAMETER.split(text))):
        if key not in fields and closest(key, fields, TYPO_SIMILARITY):
            raise UnknownNameError(f"parameter of {entry.action}", key, fields)
