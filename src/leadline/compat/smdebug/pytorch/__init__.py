"""smdebug's interface for PyTorch."""

from __future__ import annotations

from leadline.compat.smdebug.core import face
from leadline.compat.smdebug.core.face import *
from leadline.compat.smdebug.pytorch.collection import Collection
from leadline.compat.smdebug.pytorch.hook import Hook
from leadline.compat.smdebug.pytorch.singleton_utils import get_hook

__all__ = ["Collection", "Hook", "get_hook"]
__all__ += face.__all__
