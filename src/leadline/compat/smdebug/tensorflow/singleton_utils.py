"""The hook of a process that trains with TensorFlow."""

from __future__ import annotations

from leadline.compat.smdebug.core.singleton import del_hook, find_hook, set_hook
from leadline.compat.smdebug.exceptions import SMDebugNotImplementedError
from leadline.compat.smdebug.tensorflow.keras import KerasHook

__all__ = ["del_hook", "get_hook", "set_hook"]


def get_hook(
    hook_type: str | None = None, json_config_path: str | None = None, create_if_not_exists: bool = False
) -> KerasHook | None:
    """Return the hook of the process, see ``find_hook``.

    Args:
        hook_type: ``keras``, or None for it.
    Raises:
        SMDebugNotImplementedError: A hook for sessions or estimators is wanted.
    """
    if hook_type not in (None, "keras"):
        raise SMDebugNotImplementedError(f"there is no hook for {hook_type!r}; only that for Keras")
    return find_hook(KerasHook, json_config_path, create_if_not_exists)
