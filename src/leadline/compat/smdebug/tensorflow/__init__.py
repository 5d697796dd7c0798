"""smdebug's interface for TensorFlow: the hook for Keras."""

from __future__ import annotations

from leadline.compat.smdebug.core.modes import ModeKeys as modes
from leadline.compat.smdebug.core.reduction_config import ReductionConfig
from leadline.compat.smdebug.core.save_config import SaveConfig, SaveConfigMode
from leadline.compat.smdebug.lazy_imports import create_trial
from leadline.compat.smdebug.tensorflow.collection import Collection, CollectionKeys
from leadline.compat.smdebug.tensorflow.keras import KerasHook
from leadline.compat.smdebug.tensorflow.singleton_utils import del_hook, get_hook, set_hook

__all__ = [
    "Collection",
    "CollectionKeys",
    "KerasHook",
    "ReductionConfig",
    "SaveConfig",
    "SaveConfigMode",
    "create_trial",
    "del_hook",
    "get_hook",
    "modes",
    "set_hook",
]
