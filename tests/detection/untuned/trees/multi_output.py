"""Several targets in one booster with vector leaves, and the quantile objective beside it."""

import sys

import numpy as np
import xgboost as xgb

steps = int(sys.argv[1])
rng = np.random.default_rng(int(sys.argv[2]))
X = rng.uniform(-2, 2, size=(700, 4))
Y = np.stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2, X[:, 2] + X[:, 3]], 1) + 0.1 * rng.normal(size=(700, 3))
train, valid, log = xgb.DMatrix(X[:500], Y[:500]), xgb.DMatrix(X[500:], Y[500:]), {}
xgb.train(
    {"multi_strategy": "multi_output_tree", "tree_method": "hist", "eta": 0.2, "max_depth": 4, "nthread": 1},
    train,
    steps // 6,
    evals=[(train, "train"), (valid, "valid")],
    evals_result=log,
    verbose_eval=False,
)
quantiles = {"objective": "reg:quantileerror", "quantile_alpha": np.array([0.1, 0.5, 0.9]), "tree_method": "hist"}
one, other, more = xgb.QuantileDMatrix(X[:500], Y[:500, 0]), None, {}
other = xgb.QuantileDMatrix(X[500:], Y[500:, 0], ref=one)
xgb.train(
    {**quantiles, "eta": 0.1, "max_depth": 4, "nthread": 1},
    one,
    steps // 6,
    evals=[(other, "valid")],
    evals_result=more,
    verbose_eval=False,
)
print("pinball", more["valid"]["quantile"][0], more["valid"]["quantile"][-1])
print(f"rmse fell from {log['valid']['rmse'][0]:.4g} to {log['valid']['rmse'][-1]:.4g}")
