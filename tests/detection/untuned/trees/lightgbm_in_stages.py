"""Stages of LightGBM: init_model, learning rates that decay, a new objective at the end, refit on new data."""

import sys

import lightgbm as lgb
import numpy as np

steps = int(sys.argv[1])
rng = np.random.default_rng(int(sys.argv[2]))
X = rng.normal(size=(900, 6))
y = np.sin(2 * X[:, 0]) * 2 + X[:, 1] + 0.2 * rng.normal(size=900)
params = {"objective": "regression", "metric": "l2", "num_leaves": 15, "verbose": -1, "num_threads": 1}
train = lgb.Dataset(X[:600], y[:600], free_raw_data=False)
valid = lgb.Dataset(X[600:], y[600:], reference=train, free_raw_data=False)
log = {}
booster = lgb.train(
    {**params, "learning_rate": 0.1}, train, steps // 6, valid_sets=[valid], callbacks=[lgb.record_evaluation(log)]
)
first = log["valid_0"]["l2"][0]
booster = lgb.train(
    params,
    train,
    steps // 6,
    valid_sets=[valid],
    init_model=booster,
    callbacks=[lgb.reset_parameter(learning_rate=lambda k: 0.05 * 0.99**k), lgb.record_evaluation(log)],
)
last = log["valid_0"]["l2"][-1]
robust = lgb.train(
    {**params, "objective": "huber", "learning_rate": 0.05}, train, steps // 6, init_model=booster, valid_sets=[valid]
)
robust.refit(X[600:], y[600:])
print(f"error fell from {first:.4g} to {last:.4g}")
