"""Where smdebug has its check of whether a training has ended."""

from __future__ import annotations

from leadline.compat.smdebug.core.access_layer.utils import has_training_ended

__all__ = ["has_training_ended"]
