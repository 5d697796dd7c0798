"""A booster is continued twice on newer data, with a smaller rate."""

import sys

import numpy as np
import xgboost as xgb

steps = int(sys.argv[1])
rng = np.random.default_rng(int(sys.argv[2]))


def month():
    X = rng.normal(size=(500, 6))
    return xgb.DMatrix(X, X[:, 0] ** 2 + X[:, 1] + 0.2 * rng.normal(size=500))


holdout, booster, errors = month(), None, []
for eta in (0.2, 0.1, 0.05):
    data, log = month(), {}
    booster = xgb.train(
        {"eta": eta, "max_depth": 3, "nthread": 1},
        data,
        steps // 6,
        evals=[(data, "train"), (holdout, "holdout")],
        xgb_model=booster,
        evals_result=log,
        verbose_eval=False,
    )
    errors += log["holdout"]["rmse"]
    print(eta, errors[-1])
print(f"rmse fell from {errors[0]:.4g} to {errors[-1]:.4g}")
