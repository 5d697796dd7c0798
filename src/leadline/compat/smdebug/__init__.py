"""smdebug's interface over Leadline: hooks over its capture; trials, tensors and rules over its reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leadline.compat.smdebug.core.collection import CollectionKeys
from leadline.compat.smdebug.core.modes import ModeKeys as modes
from leadline.compat.smdebug.core.reduction_config import ReductionConfig
from leadline.compat.smdebug.core.save_config import SaveConfig, SaveConfigMode
from leadline.compat.smdebug.install import install

__all__ = [
    "CollectionKeys",
    "ReductionConfig",
    "SaveConfig",
    "SaveConfigMode",
    "Trial",
    "create_trial",
    "install",
    "modes",
]
__version__ = "1.0.34"
"""The version of smdebug whose interface this is."""

if TYPE_CHECKING:
    from leadline.compat.smdebug.trials import Trial, create_trial


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in ("Trial", "create_trial"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("leadline.compat.smdebug.trials"), name)
