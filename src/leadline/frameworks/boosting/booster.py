"""Interface to a booster at the end of a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Labels and predictions of one evaluation set."""

    name: str
    labels: Array
    """Shape ``(samples,)``."""
    predictions: Array
    """Shape ``(samples,)`` or ``(samples, classes)``, as the framework itself predicts."""


class Booster(Protocol):
    """A booster at the end of a round.

    **Changes nothing** - neither the model, nor its random state, nor its cached predictions.
    """

    @property
    def objective(self) -> str:
        """The objective as the framework names it: ``binary:logistic``."""

    @property
    def features(self) -> tuple[str, ...]:
        """The feature names, in the order of the training data."""

    def importances(self) -> dict[str, Floats]:
        """Return the feature importances by kind.

        Shape:
            ``(features,)`` each.
        """

    def contributions(self) -> Floats | None:
        """Return the SHAP values of the training data; None if they are not available.

        Shape:
            ``(samples, features + 1)`` or ``(samples, classes, features + 1)``; the last entry is the bias.
        """

    def trees(self) -> dict[str, Array]:
        """Return the table of this round's trees, by column."""

    def evaluation(self) -> Evaluation | None:
        """Return labels and predictions of the validation data; None if there are none."""

    def evaluation_name(self) -> str | None:
        """Return the name of that set."""

    def settings(self) -> dict[str, float | str]:
        """Return the current hyperparameters."""
