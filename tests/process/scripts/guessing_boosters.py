"""Trains boosters one after the other: on labels that the features tell nothing about, and on others.

The validation set of each training is named after its metric and labels: ``mae_noise``, ``mae_learnable``. With
``--constant`` no tree has a split, so that each metric is that of a predictor without input. With ``--only METRIC
LABELS`` it is one training.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

ROUNDS, SAMPLES, FEATURES = 20, 600, 4
IS_CONSTANT = "--constant" in sys.argv
GENERATOR = np.random.default_rng(0)
ORDERS = np.array(list(itertools.permutations((0.0, 1.0, 1.0, 0.0, 0.0))))
"""All orders of the labels of a group: of a constant, the mean over them is that over all orders."""

XGBOOST: dict[str, dict[str, Any]] = {
    "mae": {"objective": "reg:absoluteerror"},
    "rmse": {"objective": "reg:squarederror"},
    "quantile": {"objective": "reg:quantileerror", "quantile_alpha": 0.8},
    "poisson-nloglik": {"objective": "count:poisson"},
    "logloss": {"objective": "binary:logistic"},
    "ndcg@3": {"objective": "rank:ndcg"},
    "map@3": {"objective": "rank:map"},
}
LIGHTGBM: dict[str, dict[str, Any]] = {
    "l1": {"objective": "l1"},
    "l2": {"objective": "l2"},
    "quantile": {"objective": "quantile", "alpha": 0.8},
    "poisson": {"objective": "poisson"},
    "binary_logloss": {"objective": "binary"},
    "ndcg@3": {"objective": "lambdarank"},
    "map@3": {"objective": "lambdarank"},
}


def data(objective: str, *, is_learnable: bool) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], int | None]:
    """Return features, labels, and the size of the groups that are ranked; None: nothing is ranked."""
    if "rank" in objective:
        labels = ORDERS.ravel()
        noise = GENERATOR.normal(size=(len(labels), FEATURES))
        noise[:, 0] += 3 * labels * is_learnable
        return noise, labels, ORDERS.shape[1]
    values = GENERATOR.normal(size=(SAMPLES, FEATURES))
    signal = values[:, 0] if is_learnable else GENERATOR.normal(size=SAMPLES)
    if "poisson" in objective:
        return values, GENERATOR.poisson(np.exp(1 + 0.7 * signal)).astype(float), None
    if "binary" in objective:
        return values, (signal > 0.5).astype(float), None
    return values, 3 + signal + 0.2 * GENERATOR.normal(size=SAMPLES), None


def with_xgboost(name: str, metric: str, parameters: dict[str, Any], sets: list[Any]) -> None:
    import xgboost

    matrices = []
    for features, labels, size in sets:
        matrices.append(xgboost.DMatrix(features, labels, group=[size] * (len(labels) // size) if size else None))
    none = {"min_child_weight": 1e9, "eta": 1e-9} if IS_CONSTANT else {"eta": 0.3, "max_depth": 2}
    wanted = {"eval_metric": metric, "nthread": 1, "seed": 0, **none, **parameters}
    xgboost.train(wanted, matrices[0], ROUNDS, evals=[(matrices[1], name)], verbose_eval=False)


def with_lightgbm(name: str, metric: str, parameters: dict[str, Any], sets: list[Any]) -> None:
    import lightgbm

    made = []
    for features, labels, size in sets:
        group = [size] * (len(labels) // size) if size else None
        made.append(lightgbm.Dataset(features, labels, group=group, reference=made[0] if made else None))
    none = {"min_data_in_leaf": 10**6} if IS_CONSTANT else {"num_leaves": 4, "min_data_in_leaf": 5}
    wanted = {"metric": metric.partition("@")[0], "verbose": -1, "num_threads": 1, "seed": 0, **none, **parameters}
    if "@" in metric:
        wanted["eval_at"] = [int(metric.partition("@")[2])]
    lightgbm.train(wanted, made[0], ROUNDS, valid_sets=[made[1]], valid_names=[name])


def train(library: Callable[..., None], trainings: dict[str, dict[str, Any]]) -> None:
    for (metric, parameters), is_learnable in itertools.product(trainings.items(), (False, True)):
        labels = "learnable" if is_learnable else "noise"
        if "--only" in sys.argv and sys.argv[-2:] != [metric, labels]:
            continue
        sets = [data(parameters["objective"], is_learnable=is_learnable) for _ in range(2)]
        if IS_CONSTANT:
            sets[0] = sets[1]
        library(re.sub(r"\W", "_", f"{metric}_{labels}"), metric, parameters, sets)


train(*((with_xgboost, XGBOOST) if sys.argv[1] == "xgboost" else (with_lightgbm, LIGHTGBM)))
