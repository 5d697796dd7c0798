"""Data from files, and the trees of a booster as columns, in smdebug's interface."""

from __future__ import annotations

import csv
import os
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost

from leadline.compat.smdebug.exceptions import SMDebugError


def is_xgb_1_5_and_later() -> bool:
    """Return whether the table of trees has the column ``Category``."""
    major, minor = (int(part) for part in xgboost.__version__.split(".")[:2])
    return (major, minor) >= (1, 5)


def get_dmatrix(data_path: str, content_type: str, csv_weights: int = 0) -> xgboost.DMatrix | None:
    """Read data with labels from a file, or from all files of a folder.

    Args:
        content_type: ``csv``, whose first column has the labels, or ``libsvm``.
        csv_weights: 1: the second column of ``csv`` has the weights of the rows.
    Returns:
        None: There is nothing at the path.
    Raises:
        SMDebugError: It has another format, or no labels.
    """
    path, kind = os.path.expanduser(data_path), content_type.lower()
    if not os.path.exists(path):
        return None
    if kind not in ("csv", "libsvm"):
        raise SMDebugError(f"{content_type!r} is no format of data here; there are csv and libsvm")
    options = f"format={kind}"
    if kind == "csv":
        options += f"&label_column=0&delimiter={_delimiter(path)}" + ("&weight_column=1" if csv_weights else "")
    try:
        data = xgboost.DMatrix(f"{path}?{options}")
    except xgboost.core.XGBoostError as error:
        raise SMDebugError(f"{data_path} is not {kind}: {error}") from None
    if not data.get_label().size:
        raise SMDebugError(f"{data_path} has no labels")
    return data


def _delimiter(path: str) -> str:
    """Return what separates the columns in the first line of a file, or of the first file of a folder.

    Raises:
        SMDebugError: None does.
    """
    first = path if os.path.isfile(path) else os.path.join(path, min(os.listdir(path), default=""))
    with open(first, encoding="utf-8") as file:
        line = file.readline()
    try:
        return csv.Sniffer().sniff(line).delimiter
    except csv.Error as error:
        raise SMDebugError(f"{first}: {error}") from None


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
