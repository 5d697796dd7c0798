"""Finding actions by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import metadata
from typing import Any, Final

import msgspec

from leadline.actions.action import Action
from leadline.config.class_lookup import find_class, find_in_module
from leadline.config.parameters import read_parameters
from leadline.errors import ConfigurationError, UnknownNameError

BUILT_IN: Final = {
    "publish_metric": "leadline.actions.publish_metric:PublishMetric",
    "run_command": "leadline.actions.run_command:RunCommand",
    "put_event": "leadline.actions.put_event:PutEvent",
    "stop_training": "leadline.actions.stop_training:StopTraining",
    "notify": "leadline.actions.notify:Notify",
    "tracker": "leadline.actions.tracker:Tracker",
    "webhook": "leadline.actions.webhook:Webhook",
}
AMAZON: Final = {"StopTraining": "stop_training", "Email": "notify", "SMS": "notify"}
"""Amazon's names for them."""


def canonical(name: str) -> str:
    """An action's own name, where it has another's; else the name as it is."""
    return AMAZON.get(name, name)


def is_built_in(name: str) -> bool:
    """Whether a name means an action of Leadline's own."""
    return canonical(name) in BUILT_IN


@lru_cache(maxsize=1)
def other_peoples() -> dict[str, metadata.EntryPoint]:
    """Actions of installed packages, by the name of their entry point in the group ``leadline.actions``."""
    return {each.name: each for each in metadata.entry_points(group="leadline.actions")}


def action_names() -> tuple[str, ...]:
    """Every name that an action can be asked for by, Amazon's apart."""
    return (*BUILT_IN, *(name for name in sorted(other_peoples()) if name not in BUILT_IN))


def find_action(name: str, folder: str = "") -> type[Action]:
    """The class of an action.

    Args:
        name: An action's name, Amazon's, ``file.py:Class`` or ``module:Class``.
        folder: What a relative file is relative to; "" for the working directory.
    Raises:
        UnknownNameError: No action has that name.
        ConfigurationError: The file or module cannot be imported, or holds no such action.
    """
    name = canonical(name)
    if name in BUILT_IN:
        return find_class(BUILT_IN[name], Action, "action")
    if ":" in name:
        return find_class(name, Action, "action", folder)
    if name in other_peoples():
        entry = other_peoples()[name]
        return find_in_module(entry.module, entry.attr, Action, "action")
    raise UnknownNameError("action", name, action_names())


def make_action(name: str, parameters: Mapping[str, Any], folder: str = "") -> Action:
    """An action with its parameters, read as strictly as a rule's.

    Raises:
        UnknownNameError: No action, or no parameter, has that name.
        ConfigurationError: A value is none that the parameter takes.
    """
    kind = find_action(name, folder)
    given = read_parameters(kind, parameters)
    for each in msgspec.structs.fields(kind):
        if each.required and each.name not in given:
            lead = "" if each.name == kind.target else f"{each.name}="
            raise ConfigurationError(f"{name} needs {each.name}: write {name}:{lead}{each.name.upper()}")
    return kind(**given)
