"""XGBoost as a random forest: forty parallel trees in one round; then boosted forests."""

import sys

import numpy as np
import xgboost as xgb
from xgboost import XGBRFRegressor

steps = int(sys.argv[1])
rng = np.random.default_rng(int(sys.argv[2]))
X = rng.normal(size=(700, 6))
y = X[:, 0] + np.abs(X[:, 1]) * 2 + 0.3 * rng.normal(size=700)
forest = XGBRFRegressor(n_estimators=40, max_depth=6, subsample=0.8, colsample_bynode=0.6, n_jobs=1, random_state=0)
forest.fit(X[:500], y[:500])
alone = np.sqrt(np.mean((forest.predict(X[500:]) - y[500:]) ** 2))
print("forest", alone)
train, valid, log = xgb.DMatrix(X[:500], y[:500]), xgb.DMatrix(X[500:], y[500:]), {}
params = {"num_parallel_tree": 4, "subsample": 0.7, "colsample_bynode": 0.7, "eta": 0.2, "max_depth": 4, "nthread": 1}
xgb.train(params, train, steps // 6, evals=[(valid, "valid")], evals_result=log, verbose_eval=False)
print(f"rmse fell from {log['valid']['rmse'][0]:.4g} to {log['valid']['rmse'][-1]:.4g}")
