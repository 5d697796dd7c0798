"""What is asked of a booster at the end of a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What a booster predicts of a set of samples, and what is so."""

    name: str
    labels: Array
    """Shape ``(samples,)``."""
    predictions: Array
    """Shape ``(samples,)`` or ``(samples, classes)``, as the framework itself predicts."""


class Booster(Protocol):
    """A booster as a round has left it.

    **Changes nothing** - neither the model nor its random state, nor what is cached of its predictions.
    """

    @property
    def objective(self) -> str:
        """As the framework names it: ``binary:logistic``."""

    @property
    def features(self) -> tuple[str, ...]:
        """Their names, in the order of the training data."""

    def importances(self) -> dict[str, Floats]:
        """What each feature is worth, by kind.

        Shape:
            ``(features,)`` each.
        """

    def contributions(self) -> Floats | None:
        """SHAP values of the training data; None: they cannot be had.

        Shape:
            ``(samples, features + 1)`` or ``(samples, classes, features + 1)``; last what every sample begins with.
        """

    def trees(self) -> dict[str, Array]:
        """The table of the trees of this round, by column."""

    def evaluated(self) -> Evaluated | None:
        """Labels and predictions of the validation data; None: there are none."""

    def evaluated_name(self) -> str | None:
        """The name of that set."""

    def settings(self) -> dict[str, float | str]:
        """The hyperparameters as they are now."""
