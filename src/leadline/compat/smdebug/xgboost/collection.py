"""The collections of XGBoost, where smdebug has them."""

from __future__ import annotations

from leadline.compat.smdebug.core.collection import Collection, CollectionKeys

__all__ = ["Collection", "CollectionKeys"]
