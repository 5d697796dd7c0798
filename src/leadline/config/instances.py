"""Rules and actions given as instances: their classes and parameters, from which other processes create them again."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from leadline.config.options import ActionEntry, parse_action, parse_triggered_action
from leadline.errors import ConfigurationError
from leadline.records.manifest import RuleSpec
from leadline.records.names import display_name

_BUILT_IN: Final = ("leadline.rules.", "leadline.actions.")


def rule_spec(rule: Any, folder: str) -> RuleSpec:
    """Return the specification of an instance of a rule.

    Raises:
        ConfigurationError: It is none, or another process cannot import its class.
    """
    if not hasattr(type(rule), "__struct_fields__") or not hasattr(rule, "evaluate"):
        raise ConfigurationError(f"{rule!r} is not a rule: pass a name, or an instance of leadline.rules.Rule")
    return RuleSpec("", _class_path(rule), _parameters(rule), folder, "option")


def action_entries(on: Sequence[object] | Mapping[str, object], folder: str) -> Iterator[ActionEntry]:
    """Yield the actions of ``watch(on=…)``.

    Args:
        on: Texts, instances of actions (which then apply to every rule), or one or several of both by
            ``RULE[@status]``.
        folder: Base of relative files in texts.
    Raises:
        ConfigurationError: An item is neither, or another process cannot import its class.
    """
    if isinstance(on, str):
        yield parse_action(on, folder)
    elif isinstance(on, Mapping):
        for trigger, given in on.items():
            for action in given if isinstance(given, (list, tuple)) else (given,):
                yield _action_entry(str(trigger), action, folder)
    else:
        for item in on:
            yield from action_entries(item if isinstance(item, (str, Mapping)) else {"*": item}, folder)


def _action_entry(trigger: str, action: Any, folder: str) -> ActionEntry:
    if isinstance(action, str):
        return parse_action(f"{trigger}={action}", folder)
    if not isinstance(action, Mapping):
        if not hasattr(type(action), "__struct_fields__") or not hasattr(action, "describe"):
            raise ConfigurationError(
                f"{action!r} is not an action: pass a text, or an instance of leadline.actions.Action"
            )
        action = {**_parameters(action), "action": _class_path(action)}
    return parse_triggered_action(trigger, action, folder, "option", f"on={trigger}")


def _parameters(instance: Any) -> dict[str, Any]:
    """Return the parameters that are not defaults."""
    kind = type(instance)
    values = {name: getattr(instance, name) for name in kind.__struct_fields__}
    given = {name: value for name, value in values.items() if value != _default(kind, name)}
    try:
        json.dumps(given)
    except TypeError as error:
        raise ConfigurationError(f"{kind.__name__}: a parameter cannot be passed to another process: {error}") from None
    return given


def _default(kind: type, name: str) -> Any:
    fields: tuple[str, ...] = kind.__struct_fields__  # type: ignore[attr-defined]
    defaults: tuple[Any, ...] = kind.__struct_defaults__  # type: ignore[attr-defined]
    position = fields.index(name) - (len(fields) - len(defaults))
    return defaults[position] if position >= 0 else object()


def _class_path(instance: Any) -> str:
    """Return the path by which the judge finds the class: a built-in name, a module, or a file."""
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
