"""A small forest of LightGBM's, for the contract of adapters."""

from __future__ import annotations

from typing import Any

import lightgbm
import numpy as np
from lightgbm.engine import CVBooster

CAPTURE = ["all:every=1", "trees:every=2", "average_shap:every=3", "full_shap:every=3"]


def owners() -> list[Any]:
    return [lightgbm, lightgbm.Booster, lightgbm.Dataset, lightgbm.engine, lightgbm.callback, CVBooster]


def train() -> bytes:
    np.random.seed(3)
    generator = np.random.default_rng(3)
    samples = generator.normal(size=(300, 4)).astype(np.float32)
    labels = (samples[:, 0] + samples[:, 1] ** 2 > 0.5).astype(int)
    trained = lightgbm.Dataset(samples[:200], labels[:200], free_raw_data=False)
    held = lightgbm.Dataset(samples[200:], labels[200:], reference=trained)
    parameters = {
        "objective": "binary",
        "metric": ["binary_logloss", "auc"],
        "num_threads": 1,
        "num_leaves": 6,
        "verbosity": -1,
        "bagging_fraction": 0.7,
        "bagging_freq": 1,
        "seed": 5,
        "deterministic": True,
    }
    model = lightgbm.train(parameters, trained, 8, valid_sets=[trained, held], valid_names=["train", "held"])
    return model.model_to_string().encode() + repr(np.random.get_state()).encode()
