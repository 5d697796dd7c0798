"""Collections of MXNet's tensors, in smdebug's interface."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from leadline.compat.smdebug.core.capture_items import Naming, TensorSelection
from leadline.compat.smdebug.core.collection import Collection as AnyCollection
from leadline.compat.smdebug.core.collection import CollectionKeys

__all__ = ["NAMING", "Collection", "CollectionKeys"]

_TRAIN: Final = ("train",)
_WEIGHTS: Final = TensorSelection("weights", None, _TRAIN)
_BIASES: Final = TensorSelection("biases", None, _TRAIN)
_GRADIENTS: Final = TensorSelection("gradients", "^gradient/", _TRAIN)
_LOSSES: Final = TensorSelection("losses")
_LAYERS: Final = TensorSelection("layers")

NAMING: Final = Naming(
    defaults={
        "all": (".*",),
        "default": (),
        "weights": ("^(?!gradient).*weight",),
        "biases": ("^(?!gradient).*bias",),
        "gradients": ("^gradient",),
        "losses": (".*loss._(?!input).*output",),
    },
    native={
        "weights": (TensorSelection("weights", "weight", _TRAIN),),
        "biases": (TensorSelection("biases", "bias", _TRAIN),),
        "gradients": (_GRADIENTS,),
        "losses": (_LOSSES,),
        "all": (_WEIGHTS, _BIASES, _GRADIENTS, _LOSSES, _LAYERS),
    },
    searched=(_WEIGHTS, _BIASES, _GRADIENTS, _LAYERS),
)


@dataclass(eq=False)
class Collection(AnyCollection):
    """See ``leadline.compat.smdebug.core.collection.Collection``; also inputs and outputs of blocks."""

    def add_block_tensors(self, block: Any, inputs: bool = False, outputs: bool = True) -> None:
        """Add the inputs or outputs of a block of Gluon."""
        sides = "|".join(["input"] * inputs + ["output"] * outputs)
        if sides:
            self.include(rf"^{re.escape(block.name)}_(?:{sides})_\d+$")
