"""Boosting trainings stored in two runs: with the fast path for metrics-only rounds, and with every round in full.

Argument: a folder for the runs. Prints the number of rounds on the fast path by kind.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import boosters
import lightgbm
import xgboost

import leadline
from leadline.training.recorder.step_recorder import StepRecorder

TREES = {"max_depth": 3, "nthread": 1, "seed": 3}


class Logs(xgboost.callback.TrainingCallback):
    """Logs a number at every third round."""

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        if epoch % 3 == 0:
            leadline.log(rate=float(epoch))
        return False


def scored() -> None:
    trained, held = boosters.halves()
    settings = {**TREES, "objective": "binary:logistic", "eval_metric": ["logloss", "auc"]}
    evals = [(trained, "train"), (held, "held")]
    xgboost.train(settings, trained, 23, evals=evals, callbacks=[Logs()], verbose_eval=False)
    xgboost.train(settings, trained, 60, evals=evals, early_stopping_rounds=2, verbose_eval=False)


def unscored() -> None:
    trained, _ = boosters.halves(0)
    xgboost.train(TREES, trained, 12)
    model = xgboost.Booster(TREES, [trained])
    for at in range(8):
        model.update(trained, at)


def bad() -> None:
    """Train with a custom metric that is NaN at some rounds."""
    trained, held = boosters.halves(0)
    counts = iter(range(10_000))

    def own(predictions: Any, data: Any) -> tuple[str, float]:
        return "own", float("nan") if next(counts) % 7 == 5 else 1.0

    xgboost.train(TREES, trained, 20, evals=[(held, "held")], custom_metric=own, verbose_eval=False)


def folds() -> None:
    trained, _ = boosters.halves()
    xgboost.cv({**TREES, "objective": "binary:logistic"}, trained, 9, nfold=3)


def of_lightgbm() -> None:
    features, labels = boosters.samples()
    settings = {
        "objective": "binary",
        "metric": ["binary_logloss", "auc"],
        "num_threads": 1,
        "verbosity": -1,
        "seed": 3,
        "learning_rate": 0.1,
    }
    trained = lightgbm.Dataset(features[:400], labels[:400])
    held = lightgbm.Dataset(features[400:], labels[400:], reference=trained)
    rates = lightgbm.reset_parameter(learning_rate=lambda at: 0.1 * 0.99**at)
    lightgbm.train(settings, trained, 60, valid_sets=[trained, held], valid_names=["train", "held"], callbacks=[rates])
    lightgbm.train({**settings, "objective": "regression", "metric": "l2"}, trained, 12, valid_sets=[held])
    lightgbm.train(settings, trained, 12)
    lightgbm.cv(settings, lightgbm.Dataset(features, labels), 9, nfold=3)


KINDS: dict[str, Callable[[], None]] = {
    "scored": scored,
    "unscored": unscored,
    "bad": bad,
    "folds": folds,
    "of_lightgbm": of_lightgbm,
}


def main(folder: str) -> None:
    short = StepRecorder.metrics_only_step
    counts = dict.fromkeys(KINDS, 0)

    def counted(self: StepRecorder, *arguments: Any) -> bool:
        is_short = short(self, *arguments)
        counts[kind] += is_short
        return is_short

    for kind, train in KINDS.items():
        for way, method in (("short", counted), ("full", lambda *_: False)):
            StepRecorder.metrics_only_step = method  # type: ignore[method-assign]
            with leadline.Hook(out=folder, name=f"{kind}-{way}", budget="off"):
                train()
    print(json.dumps(counts))


if __name__ == "__main__":
    main(sys.argv[1])
