"""The hook of a process, which scripts fetch by ``get_hook``."""

from __future__ import annotations

import os
from typing import TypeVar, cast

from leadline.compat.smdebug.core.hook import BaseHook
from leadline.compat.smdebug.core.json_config import config_path

_Hook = TypeVar("_Hook", bound=BaseHook)
_hook: BaseHook | None = None


def set_hook(custom_hook: BaseHook | None) -> None:
    """Make a hook that of the process.

    Raises:
        TypeError: It is no hook.
    """
    global _hook
    if custom_hook is not None and not isinstance(custom_hook, BaseHook):
        raise TypeError(f"a hook is expected, not {type(custom_hook).__name__}")
    _hook = custom_hook


def del_hook() -> None:
    """Forget the hook of the process."""
    set_hook(None)


def find_hook(kind: type[_Hook], json_config_path: str | None, create_if_not_exists: bool) -> _Hook | None:
    """Return the hook of the process.

    Args:
        json_config_path: The configuration file; None: that of the environment or SageMaker's container.
        create_if_not_exists: Create it from the configuration file, if there is one.
    Returns:
        None: there is none, or ``USE_SMDEBUG`` is false.
    """
    if os.environ.get("USE_SMDEBUG", "true").lower() in ("false", "0", "no", "off"):
        return None
    if _hook is None and create_if_not_exists and os.path.exists(config_path(json_config_path)):
        set_hook(kind.create_from_json_file(json_config_path))
    return cast("_Hook | None", _hook)  # a script that trains with a framework makes the hook for it
