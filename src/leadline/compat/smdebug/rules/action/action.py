"""The actions of a rule as a text describes them, in smdebug's interface."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from leadline.compat.smdebug.core.logger import get_logger
from leadline.compat.smdebug.exceptions import SMDebugValueError
from leadline.compat.smdebug.rules.action.message_action import MessageAction
from leadline.compat.smdebug.rules.action.stop_training_action import StopTrainingAction

_REQUIRED: Final = {"stoptraining": "training_job_prefix", "email": "endpoint", "sms": "endpoint"}
"""What each action needs, by its name."""


class Actions:
    """What is done when a rule has found something.

    An action that is unknown or incomplete is logged and left out, and so is one that fails: rules continue.

    Args:
        actions_str: One action or a list of them, as JSON: ``{"name": "stoptraining", "training_job_prefix": PREFIX}``,
            ``{"name": "email", "endpoint": ADDRESS}`` or ``{"name": "sms", "endpoint": NUMBER}``. Empty: none.
    Raises:
        SMDebugValueError: It is no JSON.
    """

    def __init__(self, actions_str: str | None, rule_name: str) -> None:
        self._actions: list[MessageAction | StopTrainingAction] = []
        text = (actions_str or "").strip()
        try:
            described = json.loads(text) if text else []
        except json.JSONDecodeError:
            raise SMDebugValueError(f"actions are a list of actions as JSON, not {text!r}") from None
        for entry in described if isinstance(described, list) else [described]:
            action = _action(entry, rule_name)
            if action is None:
                get_logger().warning("left out: %s is no action; there are %s", entry, ", ".join(_REQUIRED))
            else:
                self._actions.append(action)

    def invoke(self, message: str = "") -> None:
        """Perform all actions, in their order."""
        for action in self._actions:
            action.invoke(message)


def _action(entry: Any, rule_name: str) -> MessageAction | StopTrainingAction | None:
    name = str(entry.get("name")).lower() if isinstance(entry, Mapping) else ""
    given = entry.get(_REQUIRED[name]) if name in _REQUIRED else None
    if given is None:
        return None
    if name == "stoptraining":
        return StopTrainingAction(rule_name, str(given))
    return MessageAction(rule_name, name, str(given))
