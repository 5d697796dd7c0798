"""What ``smdebug.pytorch``, ``smdebug.mxnet``, ``smdebug.tensorflow`` and ``smdebug.xgboost`` have in common."""

from __future__ import annotations

from leadline.compat.smdebug.core.collection import CollectionKeys
from leadline.compat.smdebug.core.modes import ModeKeys as modes
from leadline.compat.smdebug.core.reduction_config import ReductionConfig
from leadline.compat.smdebug.core.save_config import SaveConfig, SaveConfigMode
from leadline.compat.smdebug.core.singleton import del_hook, set_hook
from leadline.compat.smdebug.lazy_imports import create_trial

__all__ = [
    "CollectionKeys",
    "ReductionConfig",
    "SaveConfig",
    "SaveConfigMode",
    "create_trial",
    "del_hook",
    "modes",
    "set_hook",
]
