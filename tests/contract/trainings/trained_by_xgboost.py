"""A small forest of XGBoost's, for the contract of adapters."""

from __future__ import annotations

from typing import Any

import numpy as np
import xgboost
from xgboost.callback import CallbackContainer

CAPTURE = ["all:every=1", "trees:every=2", "average_shap:every=3", "full_shap:every=3"]


def owners() -> list[Any]:
    return [xgboost, xgboost.Booster, xgboost.DMatrix, xgboost.training, xgboost.callback, CallbackContainer]


def train() -> bytes:
    np.random.seed(3)
    generator = np.random.default_rng(3)
    samples = generator.normal(size=(300, 4)).astype(np.float32)
    labels = (samples[:, 0] + samples[:, 1] ** 2 > 0.5).astype(int)
    trained, held = (xgboost.DMatrix(samples[at], labels[at]) for at in (slice(0, 200), slice(200, 300)))
    parameters = {
        "objective": "binary:logistic",
        "eval_metric": ["logloss", "auc"],
        "nthread": 1,
        "max_depth": 3,
        "subsample": 0.7,
        "seed": 5,
    }
    model = xgboost.train(parameters, trained, 8, evals=[(trained, "train"), (held, "held")], verbose_eval=False)
    return bytes(model.save_raw()) + repr(np.random.get_state()).encode()
