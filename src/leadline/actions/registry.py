"""The built-in actions, and lookup of actions by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from leadline.actions.action import Action
from leadline.config.class_registry import ClassRegistry
from leadline.config.parameters import read_parameters
from leadline.errors import ConfigurationError

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
"""SageMaker Debugger's names of the built-in actions."""

REGISTRY: Final = ClassRegistry("action", Action, BUILT_IN, AMAZON)
canonical = REGISTRY.canonical
find_action = REGISTRY.find


def is_built_in(name: str) -> bool:
    """Return whether a name is that of a built-in action."""
    return canonical(name) in BUILT_IN


def make_action(name: str, parameters: Mapping[str, Any], folder: str = "") -> Action:
    """Construct an action with its parameters, which are checked as strictly as those of a rule.

    Raises:
        UnknownNameError: There is no action, or no parameter, with that name.
        ConfigurationError: A value is invalid.
    """
    kind = find_action(name, folder)
    values = read_parameters(kind, parameters)
    for field in msgspec.structs.fields(kind):
        if field.required and field.name not in values:
            prefix = "" if field.name == kind.target else f"{field.name}="
            raise ConfigurationError(f"{name} needs {field.name}: write {name}:{prefix}{field.name.upper()}")
    return kind(**values)
