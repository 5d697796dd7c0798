"""The hook of a process that trains with TensorFlow."""

from __future__ import annotations

from leadline.compat.smdebug.core.singleton import del_hook, find_hook, set_hook
from leadline.compat.smdebug.exceptions import SMDebugNotImplementedError
from leadline.compat.smdebug.tensorflow.keras import KerasHook

__all__ = ["del_hook", "get_hook", "set_hook"]


def get_hook(
    hook_type: str | None = None, json_config_path: str | None = None, create_if_not_exists: bool = False
) -> KerasHook | None:
    """Return the hook of the process.

    Args:
        hook_type: ``keras``, or None for it.
        json_config_path: The configuration file; None: that of the environment or SageMaker's container.
        create_if_not_exists: Create it from the configuration file, if there is one.
    Returns:
        None: there is none, or ``USE_SMDEBUG`` is false.
    Raises:
        SMDebugNotImplementedError: A hook for sessions or estimators is wanted.
    """
    if hook_type not in (None, "keras"):
        raise SMDebugNotImplementedError(f"there is no hook for {hook_type!r}; only that for Keras")
    found: KerasHook | None = find_hook(KerasHook, json_config_path, create_if_not_exists)
    return found
