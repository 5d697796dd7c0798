"""Trainings of boosted trees with a planted fault, and their healthy twins; with XGBoost or LightGBM.

Usage: tree_faults.py FAULT xgboost|lightgbm [--healthy]. A faulty training has slow rounds and takes over a minute, so
that it can be stopped; the healthy twin is short.
"""

import argparse
import time
from typing import Any

import numpy as np

ROUNDS = {True: 40, False: 5000}
PAUSE_SECONDS = 0.02

Sets = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def samples(count: int, *, apart: float) -> tuple[np.ndarray, np.ndarray]:
    """Return samples of ten features; the class means of six are ``apart`` standard deviations apart."""
    random = np.random.default_rng(0)
    y = random.integers(0, 2, count).astype(np.float64)
    x = random.normal(size=(count, 10))
    x[:, :6] += apart * (y[:, None] - 0.5)
    return x, y


def halves(x: np.ndarray, y: np.ndarray) -> Sets:
    half = len(y) // 2
    return x[:half], y[:half], x[half:], y[half:]


def overfit(*, healthy: bool) -> tuple[Sets, dict[str, Any]]:
    """A hundred noisy samples, which are memorized; the twin has many samples and a lower learning rate."""
    x, y = samples(8000 if healthy else 200, apart=2.4 if healthy else 0.2)
    return halves(x, y), {"max_depth": 3, "eta": 0.05 if healthy else 0.5}


def class_imbalance(*, healthy: bool) -> tuple[Sets, dict[str, Any]]:
    """One class has forty times as many labels as the other."""
    x, y = samples(4000, apart=2.4)
    if not healthy:
        rare = np.flatnonzero(y == 1)
        kept = np.sort(np.concatenate([np.flatnonzero(y == 0), rare[: len(rare) // 40]]))
        x, y = x[kept], y[kept]
        order = np.random.default_rng(1).permutation(len(y))
        x, y = x[order], y[order]
    return halves(x, y), {"max_depth": 3}


def feature_importance_overweight(*, healthy: bool) -> tuple[Sets, dict[str, Any]]:
    """One feature is the label in other units."""
    x, y = samples(4000, apart=2.4)
    if not healthy:
        x[:, 7] = 100.0 * y + 3.0
    return halves(x, y), {"max_depth": 3}


def no_split(*, healthy: bool) -> tuple[Sets, dict[str, Any]]:
    """A leaf must have more hessian than all samples together."""
    x, y = samples(4000, apart=2.4)
    forbidding = {"min_child_weight": 2000, "min_sum_hessian_in_leaf": 2000}
    return halves(x, y), {"max_depth": 3} | ({} if healthy else forbidding)


def tree_depth(*, healthy: bool) -> tuple[Sets, dict[str, Any]]:
    """Trees can be ten levels deep."""
    x, y = samples(4000, apart=2.4)
    return halves(x, y), {"max_depth": 3 if healthy else 10}


FAULTS = (overfit, class_imbalance, feature_importance_overweight, no_split, tree_depth)


def train_xgboost(sets: Sets, settings: dict[str, Any], rounds: int, pause: float) -> None:
    import xgboost

    class Slow(xgboost.callback.TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            time.sleep(pause)
            return False

    train, valid = xgboost.DMatrix(*sets[:2]), xgboost.DMatrix(*sets[2:])
    told = {"objective": "binary:logistic", "nthread": 1, **settings}
    evals = [(train, "train"), (valid, "holdout")]
    xgboost.train(told, train, rounds, evals=evals, verbose_eval=False, callbacks=[Slow()])


def train_lightgbm(sets: Sets, settings: dict[str, Any], rounds: int, pause: float) -> None:
    import lightgbm

    train = lightgbm.Dataset(*sets[:2])
    valid = lightgbm.Dataset(*sets[2:], reference=train)
    told = {
        "objective": "binary",
        "num_threads": 1,
        "verbose": -1,
        "min_data_in_leaf": 2,
        "num_leaves": 256,
        **settings,
    }
    lightgbm.train(
        told,
        train,
        rounds,
        valid_sets=[train, valid],
        valid_names=["train", "holdout"],
        callbacks=[lambda environment: time.sleep(pause)],
    )


def main() -> None:
    faults = {fault.__name__: fault for fault in FAULTS}
    trainings = {"xgboost": train_xgboost, "lightgbm": train_lightgbm}
    options = argparse.ArgumentParser()
    options.add_argument("fault", choices=faults)
    options.add_argument("library", choices=trainings)
    options.add_argument("--healthy", action="store_true")
    given = options.parse_args()
    sets, settings = faults[given.fault](healthy=given.healthy)
    trainings[given.library](sets, settings, ROUNDS[given.healthy], 0.0 if given.healthy else PAUSE_SECONDS)


if __name__ == "__main__":
    main()
