"""Losses that the device may still be computing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from leadline.frameworks.jax.facts import LossPlace
from leadline.frameworks.kit.late_scalar import LateScalar


class JaxScalar(LateScalar):
    """A sum of numbers that JAX may still be computing, divided."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Element:
    """An element of an array; the mean of the array if it has fewer elements."""

    array: Any
    index: int = 0

    def is_ready(self) -> bool:
        """Return whether it can be read without waiting; a constant is a number of JAX's own."""
        return not isinstance(self.array, jax.Array) or self.array.is_ready()

    def is_lost(self) -> bool:
        """Return whether its array was deleted."""
        return isinstance(self.array, jax.Array) and self.array.is_deleted()

    def read(self) -> float:
        """Return the number."""
        with jax.transfer_guard_device_to_host("allow"):  # as jax.device_get does, which takes several times as long
            values = np.asarray(self.array)
        if not values.ndim:
            return float(values)
        flat = values.astype(np.float64).reshape(-1)
        return float(flat[self.index] if self.index < flat.size else flat.mean())


@dataclass(frozen=True, slots=True)
class BatchMean:
    """The loss of a batch, by the means of an epoch until then.

    Attributes:
        mean: The mean with the batch.
        count: The number of samples until then.
        mean_before: The mean without the batch; None: it is the first one.
    """

    mean: Element
    count: int
    mean_before: Element | None
    count_before: int

    def is_ready(self) -> bool:
        """Return whether it can be read without waiting."""
        return self.mean.is_ready() and (self.mean_before is None or self.mean_before.is_ready())

    def is_lost(self) -> bool:
        """Return whether an array was deleted."""
        return self.mean.is_lost() or (self.mean_before is not None and self.mean_before.is_lost())

    def read(self) -> float:
        """Return the loss."""
        before = self.mean_before.read() * self.count_before if self.mean_before is not None else 0.0
        return (self.mean.read() * self.count - before) / (self.count - self.count_before)


class EpochMeans:
    """The means of the loss that Keras shows, from the first batch of an epoch on."""

    def __init__(self) -> None:
        self._mean: Element | None = None
        self._count = 0

    def next(self, mean: Any, samples: int) -> JaxScalar:
        """Return the loss of the next batch.

        Args:
            mean: The mean with it.
            samples: Its samples.
        """
        before, count = self._mean, self._count
        self._mean, self._count = Element(mean), count + samples
        return JaxScalar([BatchMean(self._mean, self._count, before, count)])


def losses_at(places: Sequence[LossPlace], step: int, result: Any) -> list[JaxScalar]:
    """Return the losses of a step of a call."""
    return [JaxScalar([Element(place.find(result), step)]) for place in places]
