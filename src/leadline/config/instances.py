"""Conversion of rule and action instances to options, from which the judge creates them again in its own process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from leadline.errors import ConfigurationError
from leadline.records.names import display_name

_BUILT_IN: Final = ("leadline.rules.", "leadline.actions.")


def rule_to_option(rule: Any) -> str:
    """Return a rule in the syntax of ``--rule``: its class, and the parameters that are not defaults.

    Args:
        rule: An option already, or an instance of a rule.
    Raises:
        ConfigurationError: It is neither, or another process cannot import its class.
    """
    if isinstance(rule, str):
        return rule
    fields = getattr(type(rule), "__struct_fields__", None)
    if fields is None or not hasattr(rule, "evaluate"):
        raise ConfigurationError(f"{rule!r} is not a rule: pass a name, or an instance of leadline.rules.Rule")
    parameters = _non_default_parameters(rule)
    values = ",".join(f"{name}={_format_value(type(rule), name, value)}" for name, value in parameters.items())
    path = _class_path(rule)
    return f"{path}:{values}" if values else path


def actions_to_options(on: Sequence[object] | Mapping[str, object]) -> list[str | dict[str, Any]]:
    """Return ``watch(on=…)`` as options: texts of ``--on``, or tables with ``on``, ``action`` and parameters.

    Args:
        on: Texts, instances of actions (which then apply to every rule), or one or several of both by
            ``RULE[@status]``.
    Raises:
        ConfigurationError: An item is neither, or another process cannot import its class.
    """
    if isinstance(on, str):
        return [on]
    if isinstance(on, Mapping):
        return [option for trigger, given in on.items() for option in _options_of(str(trigger), given)]
    options: list[str | dict[str, Any]] = []
    for item in on:
        options += actions_to_options(item) if isinstance(item, (str, Mapping)) else _options_of("*", item)
    return options


def _options_of(trigger: str, given: object) -> Iterator[str | dict[str, Any]]:
    for action in given if isinstance(given, (list, tuple)) else (given,):
        if isinstance(action, str):
            yield f"{trigger}={action}"
        elif isinstance(action, Mapping):
            yield {**action, "on": trigger}
        else:
            yield {**_action_table(action), "on": trigger}


def _action_table(action: Any) -> dict[str, Any]:
    if not hasattr(type(action), "__struct_fields__") or not hasattr(action, "describe"):
        raise ConfigurationError(f"{action!r} is not an action: pass a text, or an instance of leadline.actions.Action")
    return {"action": _class_path(action), **_non_default_parameters(action)}


def _non_default_parameters(instance: Any) -> dict[str, Any]:
    kind = type(instance)
    values = {name: getattr(instance, name) for name in kind.__struct_fields__}
    return {name: value for name, value in values.items() if value != _default(kind, name)}


def _default(kind: type, name: str) -> Any:
    fields: tuple[str, ...] = kind.__struct_fields__  # type: ignore[attr-defined]
    defaults: tuple[Any, ...] = kind.__struct_defaults__  # type: ignore[attr-defined]
    position = fields.index(name) - (len(fields) - len(defaults))
    return defaults[position] if position >= 0 else object()


def _class_path(instance: Any) -> str:
    """The path by which the judge finds the class: a built-in name, a module, or a file."""
    module, name = type(instance).__module__, type(instance).__qualname__
    if module.startswith(_BUILT_IN):
        return display_name(type(instance))
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == "__main__" or file is None or "." in name:
        raise ConfigurationError(
            f"{name} is defined in {'the script itself' if module == '__main__' else 'no file'}, which the judge "
            "cannot import without running it; move the class to the top level of a separate file and import it"
        )
    return f"{module}:{name}" if "." in module else f"{os.path.abspath(file)}:{name}"


def _format_value(kind: type, name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "none"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return ",".join(_format_value(kind, name, item) for item in value)
    raise ConfigurationError(
        f"{kind.__name__}: {name}={value!r} cannot be written as a --rule option; use leadline.toml"
    )
