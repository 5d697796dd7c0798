"""Trains boosters on labels that are chance, with early stopping that watches one set or another; prints their rounds.

A booster learns its training data by heart, and no validation set becomes better: only one that watches a validation
set stops early. Of each training the set that early stopping may watch in error is named after it.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

ROUNDS = 20
GENERATOR = np.random.default_rng(0)
X, VALIDATION_X = GENERATOR.normal(size=(2, 200, 3))
Y, VALIDATION_Y = (GENERATOR.random((2, 200)) < 0.5).astype(int)


def with_xgboost() -> dict[str, int]:
    import xgboost
    from xgboost.callback import EarlyStopping

    train, validation = xgboost.DMatrix(X, Y), xgboost.DMatrix(VALIDATION_X, VALIDATION_Y)
    parameters = {"objective": "binary:logistic", "eta": 0.1, "max_depth": 6, "nthread": 1, "seed": 0}

    def rounds(evals: list[tuple[Any, str]], **options: Any) -> int:
        booster = xgboost.train(parameters, train, ROUNDS, evals=evals, verbose_eval=False, **options)
        return int(booster.num_boosted_rounds())

    def fitted(*order: tuple[Any, Any]) -> int:
        model = xgboost.XGBClassifier(n_estimators=ROUNDS, early_stopping_rounds=3, **parameters)
        model.fit(X, Y, eval_set=list(order), verbose=False)
        return int(model.get_booster().num_boosted_rounds())

    return {
        "last": rounds([(validation, "held"), (train, "last")], early_stopping_rounds=3),
        "first": rounds([(train, "first"), (validation, "held")], early_stopping_rounds=3),
        "callback": rounds([(validation, "held"), (train, "callback")], callbacks=[EarlyStopping(rounds=3)]),
        "named": rounds(
            [(train, "named"), (validation, "held")], callbacks=[EarlyStopping(rounds=3, data_name="named")]
        ),
        "other": rounds(
            [(validation, "held"), (train, "other")], callbacks=[EarlyStopping(rounds=3, data_name="held")]
        ),
        "both": rounds(
            [(validation, "held"), (train, "both")],
            early_stopping_rounds=3,
            callbacks=[EarlyStopping(rounds=3, data_name="held")],
        ),
        "validation_0": fitted((X, Y), (VALIDATION_X, VALIDATION_Y)),
        "validation_1": fitted((VALIDATION_X, VALIDATION_Y), (X, Y)),
    }


def with_lightgbm() -> dict[str, int]:
    import lightgbm

    train = lightgbm.Dataset(X, Y)
    validation = lightgbm.Dataset(VALIDATION_X, VALIDATION_Y, reference=train)
    parameters = {"objective": "binary", "verbose": -1, "num_threads": 1, "seed": 0, "min_data_in_leaf": 5}

    def rounds(names: dict[str, Any], metrics: list[str], stopping: dict[str, int]) -> int:
        booster = lightgbm.train(
            parameters | {"metric": metrics} | stopping,
            train,
            ROUNDS,
            valid_sets=list(names.values()),
            valid_names=list(names),
            callbacks=[] if stopping else [lightgbm.early_stopping(3, verbose=False)],
        )
        return int(booster.current_iteration())

    one, by_parameter = ["binary_logloss"], {"early_stopping_round": 3}
    return {
        "alone": rounds({"alone": train}, one, {}),
        "two_metrics": rounds({"two_metrics": train}, ["binary_logloss", "auc"], {}),
        "beside": rounds({"held": validation, "beside": train}, one, {}),
        "parameter": rounds({"parameter": train}, one, by_parameter),
    }


for name, count in (with_xgboost() if sys.argv[1] == "xgboost" else with_lightgbm()).items():
    print(name, count)
