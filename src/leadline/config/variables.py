"""Values written as ``$NAME``, which are resolved where they are needed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from leadline.errors import ConfigurationError
from leadline.records.json_object import JsonObject

_VARIABLE: Final = re.compile(r"\$(?:\$|\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")


class Secret(NamedTuple):
    """The value of a variable at the time when its name was replaced by it."""

    name: str
    value: str


def variables(text: str) -> tuple[str, ...]:
    """The names that a text contains as ``$NAME`` or ``${NAME}``, without duplicates; ``$$`` is a dollar sign."""
    names = (match[1] or match[2] for match in _VARIABLE.finditer(text))
    return tuple(dict.fromkeys(filter(None, names)))


def is_variable(text: str) -> bool:
    """Whether a text consists of variables only."""
    return bool(variables(text)) and not _VARIABLE.sub("", text)


def missing(
    parameters: Mapping[str, Any], environment: Mapping[str, str], verbatim: Sequence[str] = ()
) -> tuple[str, ...]:
    """The variables that parameters name and that the environment lacks or has empty."""
    named = [name for _, text in texts(parameters, verbatim) for name in variables(text)]
    return tuple(name for name in dict.fromkeys(named) if not environment.get(name))


def resolve(
    parameters: Mapping[str, Any], environment: Mapping[str, str], verbatim: Sequence[str] = ()
) -> tuple[JsonObject, tuple[Secret, ...]]:
    """Replace the names of variables in parameters by their values, once: values are not searched for names again.

    Args:
        verbatim: Parameters that stay as they are.
    Returns:
        The parameters, and the secrets that must not appear in messages from here on.
    Raises:
        ConfigurationError: A variable is not set, or empty.
    """
    absent = missing(parameters, environment, verbatim)
    if absent:
        raise ConfigurationError(f"${absent[0]} is not set")
    resolved = {name: _substitute(value, environment, name in verbatim) for name, value in parameters.items()}
    named = [name for _, text in texts(parameters, verbatim) for name in variables(text)]
    return resolved, tuple(Secret(name, environment[name]) for name in dict.fromkeys(named))


def texts(parameters: Mapping[str, Any], verbatim: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield the texts of parameters with their names, those in lists one by one."""
    for name, value in parameters.items():
        if name not in verbatim:
            parts = value if isinstance(value, (list, tuple)) else [value]
            yield from ((name, part) for part in parts if isinstance(part, str))


def _substitute(value: Any, environment: Mapping[str, str], is_verbatim: bool) -> Any:
    if is_verbatim:
        return value
    if isinstance(value, (list, tuple)):
        return [_substitute(part, environment, False) for part in value]
    if not isinstance(value, str):
        return value
    return _VARIABLE.sub(lambda match: environment[match[1] or match[2]] if match[0] != "$$" else "$", value)
