"""XGBoost on a table from two exports."""

import sys

import numpy as np
import pandas as pd
import xgboost as xgb

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"


def customers(n, seed):
    """Whether a customer leaves."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(45, 12, n),
            "months": rng.integers(1, 72, n).astype(float),
            "calls": rng.poisson(3, n).astype(float),
            "fee": rng.normal(45, 10, n),
            "usage": rng.normal(30, 9, n),
            "visits": rng.poisson(4, n).astype(float),
        }
    )
    logit = 0.5 * (frame.calls - 3) - 0.05 * (frame.months - 36) + 0.06 * (frame.fee - 45) - 0.05 * (frame.usage - 30)
    leaves = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(int)
    return frame, leaves


def main():
    train, train_y = customers(2000, 0)
    test, test_y = customers(1000, 1)
    test = test[sorted(test.columns)]
    if FIXED:
        test = test[train.columns]
    parameters = {"objective": "binary:logistic", "eval_metric": ["logloss", "auc"], "max_depth": 3, "eta": 0.1}
    dtrain = xgb.DMatrix(train.values, label=train_y)
    dtest = xgb.DMatrix(test.values, label=test_y)
    booster = xgb.train(
        {**parameters, "nthread": 1, "seed": 0},
        dtrain,
        num_boost_round=80,
        evals=[(dtrain, "train"), (dtest, "test")],
        verbose_eval=20,
    )
    accuracy = ((booster.predict(dtest) > 0.5) == test_y).mean()
    print(f"test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
