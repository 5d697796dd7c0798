"""What small trainings of one process share: their data, and the list of them for each framework."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Training = Iterator[Any]
"""Yields after each step, at last the trained arrays."""
draws = np.random.default_rng(0)
X = draws.normal(size=(64, 8)).astype("float32")
Y = (X[:, :4].sum(1) > 0).astype("int64")


TRAININGS: dict[str, list[Callable[[], Training]]] = {}


def of(framework: str) -> Callable[[Callable[[], Training]], Callable[[], Training]]:
    def add(training: Callable[[], Training]) -> Callable[[], Training]:
        TRAININGS.setdefault(framework, []).append(training)
        return training

    return add
