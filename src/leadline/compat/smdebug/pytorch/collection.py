"""Collections of PyTorch's tensors, in smdebug's interface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from leadline.compat.smdebug.core.capture_items import array_naming
from leadline.compat.smdebug.core.collection import Collection as AnyCollection
from leadline.compat.smdebug.core.collection import CollectionKeys, patterns_of

if TYPE_CHECKING:
    import torch

__all__ = ["NAMING", "Collection", "CollectionKeys"]

NAMING: Final = array_naming("[Ll]oss_(?!input).*output")


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
            if module in names:
                patterns += patterns_of(names[module], inputs=has_inputs, outputs=has_outputs)
        return Collection(
            self.name,
            [*self.include_regex, *patterns],
            self.tensor_names,
            self.reduction_config,
            self.save_config,
            self.save_histogram,
        )
