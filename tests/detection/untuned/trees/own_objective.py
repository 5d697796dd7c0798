"""An objective of one's own (squared log error) with a metric of one's own."""

import sys

import numpy as np
import xgboost as xgb

steps = int(sys.argv[1])
rng = np.random.default_rng(int(sys.argv[2]))
X = rng.normal(size=(700, 5))
y = np.exp(1 + 0.8 * X[:, 0] + 0.3 * np.abs(X[:, 1]) + 0.1 * rng.normal(size=700))


def squared_log(predt, dtrain):
    y = dtrain.get_label()
    predt = np.maximum(predt, -1 + 1e-6)
    grad = (np.log1p(predt) - np.log1p(y)) / (predt + 1)
    hess = np.maximum((-np.log1p(predt) + np.log1p(y) + 1) / (predt + 1) ** 2, 1e-6)
    return grad, hess


def rmsle(predt, dtrain):
    y = dtrain.get_label()
    predt = np.maximum(predt, -1 + 1e-6)
    return "rmsle", float(np.sqrt(np.mean((np.log1p(y) - np.log1p(predt)) ** 2)))


train, valid, log = xgb.DMatrix(X[:500], y[:500]), xgb.DMatrix(X[500:], y[500:]), {}
xgb.train(
    {"tree_method": "hist", "eta": 0.3, "max_depth": 3, "nthread": 1, "disable_default_eval_metric": 1},
    train,
    steps // 3,
    obj=squared_log,
    custom_metric=rmsle,
    evals=[(train, "train"), (valid, "valid")],
    evals_result=log,
    verbose_eval=False,
)
print(f"rmsle fell from {log['valid']['rmsle'][0]:.4g} to {log['valid']['rmsle'][-1]:.4g}")
