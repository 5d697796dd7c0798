"""Five folds with the XGBoost library: a booster each, early stopping, the mean of their scores."""

import sys

import numpy as np
import xgboost as xgb
from sklearn.model_selection import KFold

steps = int(sys.argv[1])
rng = np.random.default_rng(int(sys.argv[2]))
X = rng.normal(size=(800, 8))
y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=800) > 0).astype(int)
scores = []
for fold, (train, valid) in enumerate(KFold(5, shuffle=True, random_state=0).split(X)):
    dtrain, dvalid = xgb.DMatrix(X[train], y[train]), xgb.DMatrix(X[valid], y[valid])
    log = {}
    xgb.train(
        {"objective": "binary:logistic", "eta": 0.1, "max_depth": 3, "nthread": 1, "subsample": 0.8},
        dtrain,
        steps // 5,
        evals=[(dtrain, "train"), (dvalid, "valid")],
        early_stopping_rounds=15,
        evals_result=log,
        verbose_eval=False,
    )
    scores.append(log["valid"]["logloss"])
    print(fold, scores[-1][-1])
print(f"loss fell from {scores[-1][0]:.4g} to {min(scores[-1]):.4g}")
