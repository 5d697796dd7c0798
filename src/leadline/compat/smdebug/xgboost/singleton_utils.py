"""The hook of a process that trains with XGBoost."""

from __future__ import annotations

from leadline.compat.smdebug.core.singleton import del_hook, find_hook, set_hook
from leadline.compat.smdebug.xgboost.hook import Hook

__all__ = ["del_hook", "get_hook", "set_hook"]


def get_hook(json_config_path: str | None = None) -> Hook | None:
    """Return the hook of the process, see ``find_hook``; without one, it is created from the configuration file."""
    return find_hook(Hook, json_config_path, create_if_not_exists=True)
