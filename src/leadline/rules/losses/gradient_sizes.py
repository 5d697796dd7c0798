"""The sizes of the gradients of a model's parameters, as an explanation of a loss that does not fall."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final, NamedTuple

from leadline.records.formatting import significant
from leadline.rules import Advice, TensorNeed, Window

NEED: Final = TensorNeed("gradients", statistics=("abs_mean",), modes=("train",), is_optional=True)
SUGGESTION: Final = Advice(
    "ReLU-like activations, normalization layers or residual connections; the gradients become smaller from layer to "
    "layer on their way back (leadline tensors --collection gradients --statistic abs_mean), so that the first layers "
    "do not learn"
)
_SHARE: Final = 1e-4
"""A gradient below this share of the largest one has vanished."""
_MIN_VANISHED: Final = 2
"""A single one may be that of a large embedding, most of whose rows have no gradient."""


class Vanished(NamedTuple):
    """The first parameters of a worker, whose gradients have vanished, by size, and the one with the largest."""

    names: tuple[str, ...]
    largest: str
    smallest_size: float
    largest_size: float
    parameters: int
    """The number of parameters that were compared."""

    def description(self) -> str:
        """Return the part of a message that names the smallest and the largest gradient."""
        return (
            f"the gradients vanish, from {significant(self.largest_size)} at {self.largest} to "
            f"{significant(self.smallest_size)} at {self.names[0]}: the first {len(self.names):,} of "
            f"{self.parameters:,} are below a ten-thousandth of the largest"
        )

    def evidence(self) -> dict[str, float]:
        """Return the numbers of the description."""
        return {"smallest_gradient": self.smallest_size, "largest_gradient": self.largest_size}


@dataclass(slots=True)
class GradientSizes:
    """The latest mean absolute gradient of each parameter of a worker that is not a vector.

    A gradient of exactly 0 was never there (``no_gradient`` reports it) and is left out, as one that is not finite.
    """

    sizes: dict[str, float] = field(default_factory=dict)

    @staticmethod
    def note(by_worker: dict[str, GradientSizes], window: Window) -> None:
        """Note the gradients of a step, at which no gradient scaler skipped the update."""
        if window.is_skipped:
            return
        for reading in window.readings("abs_mean", where=lambda values: (values > 0) & (values < math.inf)):
            if len(reading.shape) > 1:
                sizes = by_worker.setdefault(reading.worker, GradientSizes()).sizes
                sizes[reading.tensor.removeprefix("gradient/")] = reading.value

    def vanished(self) -> Vanished | None:
        """Return the gradients of the first parameters, if far below the largest one; None: fewer than two are.

        Behind larger ones they have other reasons: the queries and keys of an attention that is still uniform.
        """
        if not self.sizes:
            return None
        largest = max(self.sizes, key=self.sizes.__getitem__)
        bound = _SHARE * self.sizes[largest]
        first = takewhile(lambda name: self.sizes[name] < bound, self.sizes)
        names = tuple(sorted(first, key=self.sizes.__getitem__))
        if len(names) < _MIN_VANISHED:
            return None
        return Vanished(names, largest, self.sizes[names[0]], self.sizes[largest], len(self.sizes))
