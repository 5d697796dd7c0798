"""Collections of Keras' tensors, in smdebug's interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from leadline.compat.smdebug.core.collection import Collection as AnyCollection
from leadline.compat.smdebug.core.collection import CollectionKeys, patterns_of
from leadline.compat.smdebug.core.collection_manager import CollectionManager

__all__ = ["Collection", "CollectionKeys", "CollectionManager"]


@dataclass(eq=False)
class Collection(AnyCollection):
    """See ``leadline.compat.smdebug.core.collection.Collection``; also inputs and outputs of layers."""

    def add_keras_layer(self, layer: Any, inputs: bool = False, outputs: bool = True) -> None:
        """Add the inputs or outputs of a layer of Keras."""
        self.include(patterns_of(layer.name, inputs=inputs, outputs=outputs, begin="(?:^|/)"))
