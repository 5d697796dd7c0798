"""A stack of boosters of both libraries with out-of-fold predictions, in scikit-learn's way."""

import sys

import numpy as np
from lightgbm import LGBMRegressor
from sklearn.ensemble import StackingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score
from xgboost import XGBRegressor

steps = int(sys.argv[1])
rng = np.random.default_rng(int(sys.argv[2]))
X = rng.uniform(-2, 2, size=(500, 5))
y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=500)
small = XGBRegressor(n_estimators=max(5, steps // 10), max_depth=3, learning_rate=0.2, n_jobs=1)
leaves = LGBMRegressor(n_estimators=max(5, steps // 10), num_leaves=15, learning_rate=0.2, verbose=-1, n_jobs=1)
guess = np.mean((y[:400].mean() - y[400:]) ** 2)
print("alone", -cross_val_score(small, X, y, cv=3, scoring="neg_mean_squared_error").mean())
stack = StackingRegressor([("xgb", small), ("lgbm", leaves)], Ridge(), cv=3).fit(X[:400], y[:400])
error = np.mean((stack.predict(X[400:]) - y[400:]) ** 2)
print(f"error fell from {guess:.4g} to {error:.4g}")
