"""Counts by class: what has classes, their sums, and from when on predictions are compared with labels."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from leadline.rules import TensorVector
from leadline.rules.booster_detection import LABELS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Counts = npt.NDArray[np.float64]

_START_STEP: Final = 100
_BOOSTER_START_STEP: Final = 10
_REGRESSION: Final = re.compile(
    r"((mse|l1|l2|smooth_?l1|huber|poisson_?nll|gaussian_?nll)_?loss\d*"  # of PyTorch and Gluon
    r"|(mean_)?(squared|absolute)_(percentage_|logarithmic_)?error|huber|log_?cosh|poisson)_input_\d+$",  # Keras, optax
    re.IGNORECASE,
)
"""Names of what regression losses are given."""


def start_step(vector: TensorVector) -> int:
    """Return the step from which predictions are meaningful: 100, or 10 for a booster, which uses all data in each."""
    return _BOOSTER_START_STEP if vector.tensor == LABELS else _START_STEP


def is_regression(vector: TensorVector) -> bool:
    """Return whether an input of a regression loss was counted, which has no classes."""
    return _REGRESSION.search(vector.tensor) is not None


def add_counts(counts: Counts | None, more: Counts) -> Counts:
    """Return the sum of two counts by class.

    Shape:
        counts, more: ``(classes,)`` or ``(classes, classes)``, each with the classes seen so far; result: with
        the larger number of classes.
    Units:
        Counts.
    Not a number:
        Counts are never NaN.
    """
    if counts is None:
        return more
    import numpy as np

    total = np.zeros(tuple(map(max, counts.shape, more.shape)))
    for addend in (counts, more):
        total[tuple(slice(length) for length in addend.shape)] += addend
    return total
