"""Finding actions by name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final

from leadline.actions.action import Action
from leadline.config.parameters import read_parameters
from leadline.errors import UnknownNameError

BUILT_IN: Final = {"stop_training": "leadline.actions.stop_training:StopTraining"}
AMAZON: Final = {"StopTraining": "stop_training"}
"""Amazon's names for them."""


def canonical(name: str) -> str:
    """An action's own name, where it has another's; else the name as it is."""
    return AMAZON.get(name, name)


def find_action(name: str) -> type[Action]:
    """The class of an action.

    Raises:
        UnknownNameError: No action has that name.
    """
    name = canonical(name)
    if name not in BUILT_IN:
        raise UnknownNameError("action", name, BUILT_IN)
    module, _, class_name = BUILT_IN[name].partition(":")
    found: type[Action] = getattr(importlib.import_module(module), class_name)
    return found


def make_action(name: str, parameters: Mapping[str, Any]) -> Action:
    """An action with its parameters, read as strictly as a rule's.

    Raises:
        UnknownNameError: No action, or no parameter, has that name.
        ConfigurationError: A value is none that the parameter takes.
    """
    kind = find_action(name)
    return kind(**read_parameters(kind, parameters))
