"""Rules and actions that were made in code, in words: the judge makes them again in its own process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from leadline.errors import ConfigurationError
from leadline.records.names import display_name

_OURS: Final = ("leadline.rules.", "leadline.actions.")


def in_words(rule: Any) -> str:
    """A rule as ``--rule`` would name it: its class, and the parameters that are not its defaults.

    Args:
        rule: Words already, or an instance of a rule.
    Raises:
        ConfigurationError: It is neither, or its class cannot be found again by another process.
    """
    if isinstance(rule, str):
        return rule
    fields = getattr(type(rule), "__struct_fields__", None)
    if fields is None or not hasattr(rule, "evaluate"):
        raise ConfigurationError(f"{rule!r} is no rule: give its name, or an instance of a leadline.rules.Rule")
    given = _given(rule)
    words = ",".join(f"{name}={_spoken(type(rule), name, value)}" for name, value in given.items())
    place = _place(rule)
    return f"{place}:{words}" if words else place


def actions_in_words(on: Sequence[object] | Mapping[str, object]) -> list[str | dict[str, Any]]:
    """What ``watch(on=…)`` says, in the words of ``--on``, or as tables with ``on``, ``action`` and its parameters.

    Args:
        on: Words, instances of actions (which follow every rule), or by ``RULE[@status]`` one or several of both.
    Raises:
        ConfigurationError: Something is neither, or its class cannot be found again by another process.
    """
    if isinstance(on, str):
        return [on]
    if isinstance(on, Mapping):
        return [each for occasion, given in on.items() for each in _followers(str(occasion), given)]
    words: list[str | dict[str, Any]] = []
    for each in on:
        words += actions_in_words(each) if isinstance(each, (str, Mapping)) else _followers("*", each)
    return words


def _followers(occasion: str, given: object) -> Iterator[str | dict[str, Any]]:
    for each in given if isinstance(given, (list, tuple)) else (given,):
        if isinstance(each, str):
            yield f"{occasion}={each}"
        elif isinstance(each, Mapping):
            yield {**each, "on": occasion}
        else:
            yield {**_action_table(each), "on": occasion}


def _action_table(action: Any) -> dict[str, Any]:
    if not hasattr(type(action), "__struct_fields__") or not hasattr(action, "describe"):
        raise ConfigurationError(f"{action!r} is no action: give words, or an instance of a leadline.actions.Action")
    return {"action": _place(action), **_given(action)}


def _given(instance: Any) -> dict[str, Any]:
    """The parameters that are not the defaults."""
    kind = type(instance)
    return {name: each for name in kind.__struct_fields__ if (each := getattr(instance, name)) != _default(kind, name)}


def _default(kind: type, name: str) -> Any:
    fields: tuple[str, ...] = kind.__struct_fields__  # type: ignore[attr-defined]
    defaults: tuple[Any, ...] = kind.__struct_defaults__  # type: ignore[attr-defined]
    position = fields.index(name) - (len(fields) - len(defaults))
    return defaults[position] if position >= 0 else object()


def _place(instance: Any) -> str:
    """Where the judge finds the class: a built-in one's name, a module, or a file."""
    module, name = type(instance).__module__, type(instance).__qualname__
    if module.startswith(_OURS):
        return display_name(type(instance))
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == "__main__" or file is None or "." in name:
        raise ConfigurationError(
            f"{name} is defined in {'the script itself' if module == '__main__' else 'no file'}, which the judge "
            "cannot import without running it; put the class at the top of a file of its own and import it from there"
        )
    return f"{module}:{name}" if "." in module else f"{os.path.abspath(file)}:{name}"


def _spoken(kind: type, name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "none"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return ",".join(_spoken(kind, name, each) for each in value)
    raise ConfigurationError(f"{kind.__name__}: {name}={value!r} has no words for --rule; use leadline.toml")
