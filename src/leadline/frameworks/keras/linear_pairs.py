"""Pairs of linear layers of Keras without anything in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from leadline.records import loss_facts as facts

_MAX_NAMED: Final = 4


class LinearLayerPairs:
    """Pairs of linear or convolution layers without anything in between, found while a function is traced.

    Not a pair are: layers whose output something else uses as well, a narrow layer between two wider ones, convolutions
    with groups or with a kernel of size 1 in some dimension.
    """

    def __init__(self) -> None:
        self._outputs: dict[int, tuple[Any, Any, str]] = {}
        """Outputs, layers and names of linear layers; a tensor that is kept keeps its id."""
        self._uses: Counter[int] = Counter()
        self._pairs: list[tuple[int, str, str]] = []

    def add(self, layer: Any, name: str, inputs: Sequence[Any], output: Any) -> None:
        """Look at the call of a layer, after those of the layers within it."""
        if getattr(layer, "_layers", None):
            return
        self._uses.update(map(id, inputs))
        if len(inputs) == 1 and id(inputs[0]) in self._outputs:
            _, first, first_name = self._outputs[id(inputs[0])]
            if _kind(layer) == _kind(first) and not _is_factored(first, layer):
                self._pairs.append((id(inputs[0]), first_name, name))
        if _kind(layer) and getattr(layer.activation, "__name__", "linear") == "linear":
            self._outputs[id(output)] = (output, layer, name)

    def numbers(self) -> dict[str, float]:
        """Return the facts about them."""
        pairs = dict.fromkeys((first, second) for output, first, second in self._pairs if self._uses[output] == 1)
        named = {f"{first}+{second}/{facts.CONSECUTIVE_LINEAR}": 1.0 for first, second in list(pairs)[:_MAX_NAMED]}
        return {f"loss/{facts.CONSECUTIVE_LINEAR}": float(len(pairs)), **named}


def _kind(layer: Any) -> str:
    name = type(layer).__name__
    return name if name in ("Dense", "Conv1D", "Conv2D", "Conv3D") else ""


def _is_factored(first: Any, second: Any) -> bool:
    """Whether two layers are the factors of one on purpose."""
    if _kind(first) != "Dense":
        return any(1 in layer.kernel_size or layer.groups > 1 for layer in (first, second))
    return bool(first.units < first.kernel.shape[0] and first.units < second.units)
