"""Tensors with their names and collections, and what capture items may select of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from leadline.records.plan import CaptureItem, custom_collections
from leadline.records.series import TensorInfo

GRADIENTS: Final = ("gradients",)
"""The collections of a gradient."""
ON_UPDATE: Final = "update_ratio"
"""The statistic of an update, computed from a parameter before and after it."""
_BIASES: Final = ("bias", "beta")


class NamedTensor(NamedTuple):
    """A tensor that can be captured."""

    name: str
    collections: tuple[str, ...]
    source: Any
    """The tensor of the framework, or where the adapter finds it."""

    def info(self, items: Iterable[CaptureItem], shape: Sequence[int | None], dtype: str) -> TensorInfo:
        """Return how the tensor is recorded for some items.

        Args:
            shape: Sizes that are not known are recorded as 0.
        """
        custom = custom_collections(items, self.name, self.collections)
        return TensorInfo(self.name, (*self.collections, *custom), tuple(size or 0 for size in shape), dtype)


def parameter_collections(name: str) -> tuple[str, ...]:
    """Return the collections of a parameter: ``biases`` by the end of its name, else ``weights``."""
    return ("biases",) if name.endswith(_BIASES) or name.rpartition("/")[2] == "b" else ("weights",)


def may_select(items: Iterable[CaptureItem], *collections: str) -> bool:
    """Return whether some items may select tensors of some collections; ``all`` does only if the user requested it."""
    return any(
        item.source == "option" if item.collection == "all" else item.collection in (None, *collections)
        for item in items
    )
