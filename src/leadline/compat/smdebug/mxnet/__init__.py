"""smdebug's interface for MXNet: the hook for Gluon."""

from __future__ import annotations

from leadline.compat.smdebug.core.modes import ModeKeys as modes
from leadline.compat.smdebug.core.reduction_config import ReductionConfig
from leadline.compat.smdebug.core.save_config import SaveConfig, SaveConfigMode
from leadline.compat.smdebug.lazy_imports import create_trial
from leadline.compat.smdebug.mxnet.collection import Collection, CollectionKeys
from leadline.compat.smdebug.mxnet.hook import Hook
from leadline.compat.smdebug.mxnet.singleton_utils import del_hook, get_hook, set_hook

__all__ = [
    "Collection",
    "CollectionKeys",
    "Hook",
    "ReductionConfig",
    "SaveConfig",
    "SaveConfigMode",
    "create_trial",
    "del_hook",
    "get_hook",
    "modes",
    "set_hook",
]
