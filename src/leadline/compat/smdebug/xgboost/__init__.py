"""smdebug's interface for XGBoost."""

from __future__ import annotations

from leadline.compat.smdebug.core import face
from leadline.compat.smdebug.core.face import *
from leadline.compat.smdebug.xgboost.collection import Collection
from leadline.compat.smdebug.xgboost.hook import Hook
from leadline.compat.smdebug.xgboost.singleton_utils import get_hook

__all__ = ["Collection", "Hook", "get_hook"]
__all__ += face.__all__
