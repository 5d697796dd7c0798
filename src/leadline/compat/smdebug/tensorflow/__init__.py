"""smdebug's interface for TensorFlow: the hook for Keras."""

from __future__ import annotations

from leadline.compat.smdebug.core import face
from leadline.compat.smdebug.core.face import *
from leadline.compat.smdebug.tensorflow.collection import Collection
from leadline.compat.smdebug.tensorflow.keras import KerasHook
from leadline.compat.smdebug.tensorflow.singleton_utils import get_hook

__all__ = ["Collection", "KerasHook", "get_hook"]
__all__ += face.__all__
