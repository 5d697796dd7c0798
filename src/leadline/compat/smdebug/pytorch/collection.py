"""Collections of PyTorch's tensors, in smdebug's interface."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from leadline.compat.smdebug.core.capture_items import Naming, TensorSelection
from leadline.compat.smdebug.core.collection import Collection as AnyCollection
from leadline.compat.smdebug.core.collection import CollectionKeys

if TYPE_CHECKING:
    import torch

__all__ = ["NAMING", "Collection", "CollectionKeys"]

_TRAIN: Final = ("train",)

NAMING: Final = Naming(
    defaults={
        "all": (".*",),
        "default": (),
        "weights": ("^(?!gradient).*weight",),
        "biases": ("^(?!gradient).*bias",),
        "gradients": ("^gradient",),
        "losses": ("[Ll]oss_(?!input).*output",),
    },
    native={
        "weights": (TensorSelection("weights", "weight", _TRAIN),),
        "biases": (TensorSelection("biases", "bias", _TRAIN),),
        "gradients": (TensorSelection("gradients", None, _TRAIN),),
        "losses": (TensorSelection("losses"),),
        "all": (
            TensorSelection("weights", None, _TRAIN),
            TensorSelection("biases", None, _TRAIN),
            TensorSelection("gradients", None, _TRAIN),
            TensorSelection("losses"),
            TensorSelection("layers"),
        ),
    },
    searched=(
        TensorSelection("weights", None, _TRAIN),
        TensorSelection("biases", None, _TRAIN),
        TensorSelection("gradients", None, _TRAIN),
        TensorSelection("layers"),
    ),
)


@dataclass(eq=False)
class Collection(AnyCollection):
    """See ``leadline.compat.smdebug.core.collection.Collection``; also inputs and outputs of modules."""

    modules: dict[torch.nn.Module, tuple[bool, bool]] = field(default_factory=dict)
    """The modules whose tensors are members: whether the inputs are, and whether the outputs are."""

    def add_module_tensors(self, module: torch.nn.Module, inputs: bool = False, outputs: bool = True) -> None:
        """Add the inputs or outputs of a module of the model that the hook registers."""
        self.modules[module] = inputs, outputs

    def with_names(self, names: Mapping[torch.nn.Module, str]) -> Collection:
        """Return the collection with regular expressions for the tensors of its modules.

        Args:
            names: The dotted names of the modules.
        """
        patterns = []
        for module, (has_inputs, has_outputs) in self.modules.items():
            sides = "|".join(["input"] * has_inputs + ["output"] * has_outputs)
            if module in names and sides:
                patterns.append(rf"^{re.escape(names[module])}_(?:{sides})_\d+$")
        return Collection(
            self.name,
            [*self.include_regex, *patterns],
            self.tensor_names,
            self.reduction_config,
            self.save_config,
            self.save_histogram,
        )
