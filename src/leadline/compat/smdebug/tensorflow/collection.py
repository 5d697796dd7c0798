"""Collections of Keras' tensors, in smdebug's interface."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from leadline.compat.smdebug.core.collection import Collection as AnyCollection
from leadline.compat.smdebug.core.collection import CollectionKeys
from leadline.compat.smdebug.core.collection_manager import CollectionManager

__all__ = ["Collection", "CollectionKeys", "CollectionManager"]


@dataclass(eq=False)
class Collection(AnyCollection):
    """See ``leadline.compat.smdebug.core.collection.Collection``; also inputs and outputs of layers."""

    def add_keras_layer(self, layer: Any, inputs: bool = False, outputs: bool = True) -> None:
        """Add the inputs or outputs of a layer of Keras."""
        sides = "|".join(["input"] * inputs + ["output"] * outputs)
        if sides:
            self.include(rf"(?:^|/){re.escape(layer.name)}_(?:{sides})_\d+$")
