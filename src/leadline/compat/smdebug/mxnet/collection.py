"""Collections of MXNet's tensors, in smdebug's interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from leadline.compat.smdebug.core.capture_items import array_naming
from leadline.compat.smdebug.core.collection import Collection as AnyCollection
from leadline.compat.smdebug.core.collection import CollectionKeys, patterns_of

__all__ = ["NAMING", "Collection", "CollectionKeys"]

NAMING: Final = array_naming(".*loss._(?!input).*output", gradients="^gradient/")


@dataclass(eq=False)
class Collection(AnyCollection):
    """See ``leadline.compat.smdebug.core.collection.Collection``; also inputs and outputs of blocks."""

    def add_block_tensors(self, block: Any, inputs: bool = False, outputs: bool = True) -> None:
        """Add the inputs or outputs of a block of Gluon."""
        self.include(patterns_of(block.name, inputs=inputs, outputs=outputs))
