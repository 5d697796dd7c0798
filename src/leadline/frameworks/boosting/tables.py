"""The table of a round's trees: a row for each node, every column an array of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from leadline.frameworks.boosting.booster import Array

_NONE: Final = -1
_WHOLE: Final = ("Tree", "Node", "ID", "Feature", "Yes", "No", "Missing", "Depth")


class TreeTable:
    """Filled node by node.

    Names are numbers here: ``Feature`` is the index of the feature, -1 of a leaf. ``ID``, ``Yes``, ``No`` and
    ``Missing`` name a node as ``(tree << 32) + node``, -1: there is none. ``Gain`` of a leaf is its value, as in
    XGBoost's own table; ``Split`` of a leaf, and of a split by categories, is NaN.

    Args:
        features: Their names, in the order of the training data.
    """

    def __init__(self, features: Sequence[str]) -> None:
        self._features = {name: at for at, name in enumerate(features)}
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
        """A node that parts the samples.

        Args:
            children: Where those go that meet the condition, that do not, and of which nothing is known.
        """
        self._rows.append(
            (
                tree,
                node,
                _id(tree, node),
                self._features.get(feature, _NONE),
                *(_id(tree, each) for each in children),
                depth,
                _or_nan(condition),
                _or_nan(gain),
                _or_nan(cover),
            )
        )

    def leaf(self, tree: int, node: int, depth: int, *, value: float, cover: float | None) -> None:
        """A node that ends a branch."""
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
        """By name, as in XGBoost's table of trees, with the depth of each node beside it.

        Shape:
            ``(nodes,)`` each, ordered by tree and node.
        """
        rows = sorted(self._rows, key=lambda row: row[:2])
        named = zip((*_WHOLE, "Split", "Gain", "Cover"), zip(*rows, strict=True), strict=False)
        return {name: np.array(values, np.int64 if name in _WHOLE else np.float64) for name, values in named}


def _id(tree: int, node: int) -> int:
    return (tree << 32) + node


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else float(value)
