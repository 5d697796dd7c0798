"""xgb.cv, and then the final model on all data with the number of rounds that it found."""

import sys

import numpy as np
import xgboost as xgb

steps = int(sys.argv[1])
rng = np.random.default_rng(int(sys.argv[2]))
X = rng.normal(size=(600, 6))
y = X[:, 0] * 2 + np.sin(3 * X[:, 1]) + 0.3 * rng.normal(size=600)
data = xgb.DMatrix(X, y)
params = {"eta": 0.1, "max_depth": 3, "nthread": 1}
table = xgb.cv(params, data, steps // 4, nfold=4, early_stopping_rounds=10, seed=0, as_pandas=False)
best = len(table["test-rmse-mean"])
model = xgb.train(params, data, best)
error = np.sqrt(np.mean((model.predict(data) - y) ** 2))
print(best, "rounds, error on all data", error)
print(f"rmse fell from {table['test-rmse-mean'][0]:.4g} to {table['test-rmse-mean'][-1]:.4g}")
