"""DART: trees are dropped at random, so that the training loss may rise from a round to the next."""

import sys

import numpy as np
import xgboost as xgb

steps = int(sys.argv[1])
rng = np.random.default_rng(int(sys.argv[2]))
X = rng.normal(size=(600, 8))
y = (X[:, 0] * X[:, 1] + X[:, 2] + 0.4 * rng.normal(size=600) > 0).astype(int)
train, valid, log = xgb.DMatrix(X[:450], y[:450]), xgb.DMatrix(X[450:], y[450:]), {}
params = {
    "booster": "dart",
    "objective": "binary:logistic",
    "eta": 0.2,
    "max_depth": 3,
    "nthread": 1,
    "rate_drop": 0.2,
    "skip_drop": 0.3,
    "sample_type": "weighted",
    "normalize_type": "forest",
}
xgb.train(params, train, steps // 4, evals=[(train, "train"), (valid, "valid")], evals_result=log, verbose_eval=False)
print(f"loss fell from {log['valid']['logloss'][0]:.4g} to {log['valid']['logloss'][-1]:.4g}")
