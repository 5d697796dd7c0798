"""A booster at the end of a round."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final

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


@dataclass(frozen=True, slots=True)
class BoosterConstants:
    """The properties of a booster that do not change during its training."""

    objective: str
    """The objective as the framework names it, without its parameters: ``binary:logistic``."""
    kind: str
    """``gbtree``, ``gbdt``, ``dart``, ``rf`` or ``gblinear``."""
    features: tuple[str, ...]
    """The feature names, in the order of the training data."""


_CONSTANTS: Final[weakref.WeakKeyDictionary[Any, BoosterConstants]] = weakref.WeakKeyDictionary()


class Booster(ABC):
    """A booster at the end of a round.

    **Changes nothing** - neither the model, nor its random state, nor its cached predictions.

    Args:
        booster: The framework's own booster.
    """

    def __init__(self, booster: Any) -> None:
        self._booster = booster

    @property
    def constants(self) -> BoosterConstants:
        """The properties that do not change, read once."""
        constants = _CONSTANTS.get(self._booster)
        if constants is None:
            constants = _CONSTANTS[self._booster] = self.read_constants()
        return constants

    @abstractmethod
    def read_constants(self) -> BoosterConstants:
        """Read the properties that do not change."""

    @abstractmethod
    def importances(self) -> dict[str, Floats]:
        """Return the feature importances by kind.

        Shape:
            ``(features,)`` each.
        """

    @abstractmethod
    def contributions(self) -> Floats | None:
        """Return the SHAP values of the training data; None if they are not available.

        Shape:
            ``(samples, features + 1)`` or ``(samples, classes, features + 1)``; the last entry is the bias.
        """

    @abstractmethod
    def trees(self) -> dict[str, Array]:
        """Return the table of this round's trees, by column."""

    @abstractmethod
    def evaluation(self) -> Evaluation | None:
        """Return labels and predictions of the validation data; None if there are none."""

    @abstractmethod
    def evaluation_name(self) -> str | None:
        """Return the name of that set."""

    @abstractmethod
    def settings(self) -> dict[str, float | str]:
        """Return the current hyperparameters."""
