"""Table of a round's trees: one row for each node, every column a numeric array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from leadline.frameworks.boosting.booster import Array

_NONE: Final = -1
_INTEGER_COLUMNS: Final = ("Tree", "Node", "ID", "Feature", "Yes", "No", "Missing", "Depth")


class TreeTable:
    """A table of trees, filled node by node.

    Names are stored as numbers: ``Feature`` is the index of the feature, -1 for a leaf. ``ID``, ``Yes``, ``No`` and
    ``Missing`` name a node as ``(tree << 32) + node``, -1 if there is none. ``Gain`` of a leaf is its value, as in
    XGBoost's own table; ``Split`` of a leaf, and of a split by categories, is NaN.

    Args:
        features: The feature names, in the order of the training data.
    """

    def __init__(self, features: Sequence[str]) -> None:
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
    ) -> None:
        """Add a node that splits the samples.

        Args:
            children: The child nodes for samples that meet the condition, that do not, and that miss the feature.
        """
        self._rows.append(
            (
                tree,
                node,
                _id(tree, node),
                self._features.get(feature, _NONE),
                *(_id(tree, child) for child in children),
                depth,
                _or_nan(condition),
                _or_nan(gain),
                _or_nan(cover),
            )
        )

    def leaf(self, tree: int, node: int, depth: int, *, value: float, cover: float | None) -> None:
        """Add a leaf."""
        self._rows.append(
            (
                tree,
                node,
                _id(tree, node),
                _NONE,
                _NONE,
                _NONE,
                _NONE,
                depth,
                float("nan"),
                value,
                _or_nan(cover),
            )
        )

    def columns(self) -> dict[str, Array]:
        """Return the columns by name, as in XGBoost's table of trees, plus the depth of each node.

        Shape:
            ``(nodes,)`` each, ordered by tree and node.
        """
        rows = sorted(self._rows, key=lambda row: row[:2])
        named = zip((*_INTEGER_COLUMNS, "Split", "Gain", "Cover"), zip(*rows, strict=True), strict=False)
        return {name: np.array(values, np.int64 if name in _INTEGER_COLUMNS else np.float64) for name, values in named}


def _id(tree: int, node: int) -> int:
    return (tree << 32) + node


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else float(value)
