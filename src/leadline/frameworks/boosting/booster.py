"""A booster at the end of a round, and the table of the round's trees."""

from __future__ import annotations

import math
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from leadline.statistics.guessing import Scored

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
    def scored(self) -> Scored | None:
        """Return what the metrics of the validation data are computed of; None: it has no labels."""

    @abstractmethod
    def evaluation_name(self) -> str | None:
        """Return the name of that set."""

    @abstractmethod
    def settings(self) -> dict[str, float | str]:
        """Return the current hyperparameters."""


_NONE: Final = -1
_MAX_CATEGORY: Final = 52
"""The greatest category whose power of 2 a float64 adds exactly to those of all smaller ones."""
_INTEGER_COLUMNS: Final = ("Tree", "Node", "ID", "Feature", "Yes", "No", "Missing", "Depth")


class TreeTable:
    """A table of trees, filled node by node.

    Names are stored as numbers: ``Feature`` is the index of the feature, -1 for a leaf. ``ID``, ``Yes``, ``No`` and
    ``Missing`` name a node as ``(tree << 32) + node``, -1 if there is none. ``Gain`` of a leaf is its value, as in
    XGBoost's own table; ``Split`` of a leaf, and of a split by categories, is NaN.

    Args:
        features: The feature names, in the order of the training data.
        has_categories: Whether there is a column ``Category``: of a split by categories the sum of 2 to the power of
            each category that it names, infinite if one is greater than 52; NaN of other nodes.
    """

    def __init__(self, features: Sequence[str], *, has_categories: bool = False) -> None:
        self._has_categories = has_categories
        self._features = {name: index for index, name in enumerate(features)}
        self._rows: list[tuple[Any, ...]] = []

    def split(
        self,
        tree: int,
        node: int,
        depth: int,
        *,
        feature: str,
        condition: float | None,
        children: tuple[int, int, int],
        gain: float | None,
        cover: float | None,
        categories: Sequence[int] = (),
    ) -> None:
        """Add a node that splits the samples.

        Args:
            children: The child nodes for samples that meet the condition, that do not, and that miss the feature.
        """
        ids = tuple(_id(tree, child) for child in children)
        numbers = (condition, gain, cover, _bits(categories))
        self._add(tree, node, depth, self._features.get(feature, _NONE), ids, numbers)

    def leaf(self, tree: int, node: int, depth: int, *, value: float, cover: float | None) -> None:
        """Add a leaf."""
        self._add(tree, node, depth, _NONE, (_NONE, _NONE, _NONE), (None, value, cover, None))

    def _add(
        self,
        tree: int,
        node: int,
        depth: int,
        feature: int,
        children: tuple[int, ...],
        numbers: tuple[float | None, ...],
    ) -> None:
        """Add a row; its numbers are split, gain, cover and category."""
        self._rows.append((tree, node, _id(tree, node), feature, *children, depth, *map(_or_nan, numbers)))

    def columns(self) -> dict[str, Array]:
        """Return the columns by name, as in XGBoost's table of trees, plus the depth of each node.

        Shape:
            ``(nodes,)`` each, ordered by tree and node.
        """
        rows = sorted(self._rows, key=lambda row: row[:2])
        numbers = ("Split", "Gain", "Cover", "Category") if self._has_categories else ("Split", "Gain", "Cover")
        named = zip((*_INTEGER_COLUMNS, *numbers), zip(*rows, strict=True), strict=False)
        return {name: np.array(values, np.int64 if name in _INTEGER_COLUMNS else np.float64) for name, values in named}


def _id(tree: int, node: int) -> int:
    return (tree << 32) + node


def _bits(categories: Sequence[int]) -> float | None:
    """Return a set of categories as one number; None if there are none."""
    if not categories:
        return None
    return math.inf if max(categories) > _MAX_CATEGORY else float(sum(1 << category for category in categories))


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else float(value)
