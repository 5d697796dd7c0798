"""The trees of a booster as columns, as ``smdebug.xgboost.utils`` returns them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost


def is_xgb_1_5_and_later() -> bool:
    """Return whether the table of trees has the column ``Category``."""
    major, minor = (int(part) for part in xgboost.__version__.split(".")[:2])
    return (major, minor) >= (1, 5)


def parse_tree_model(booster: Any, iteration: int, fmap: str = "") -> dict[str, npt.NDArray[Any]]:
    """Return the nodes of the trees of a round, as columns of XGBoost's table of trees.

    Args:
        fmap: The path of a file with names of features.
    Shape:
        ``(nodes,)`` each.
    Raises:
        ImportError: pandas is not installed.
    """
    table = booster[iteration : iteration + 1].trees_to_dataframe(fmap)
    per_round = int(table["Tree"].max()) + 1
    table["Tree"] += iteration * per_round
    table["ID"] = [f"{tree}-{node}" for tree, node in zip(table["Tree"], table["Node"], strict=True)]
    for column in ("Yes", "No", "Missing"):
        table[column] = [_moved(target, iteration * per_round) for target in table[column]]
    return {name: table[name].to_numpy() for name in table.columns}


def _moved(target: Any, first_tree: int) -> Any:
    """Return the node that a node leads to, as ``tree-node`` of the whole booster; a leaf leads nowhere."""
    if not isinstance(target, str):
        return np.nan
    tree, _, node = target.partition("-")
    return f"{int(tree) + first_tree}-{node}"
