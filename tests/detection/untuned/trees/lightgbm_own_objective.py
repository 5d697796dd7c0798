"""An asymmetric objective of one's own in LightGBM, with bagging and dart."""

import sys

import lightgbm as lgb
import numpy as np

steps = int(sys.argv[1])
rng = np.random.default_rng(int(sys.argv[2]))
X = rng.normal(size=(900, 6))
y = 3 * X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=900)


def asymmetric(prediction, data):
    residual = data.get_label() - prediction
    weight = np.where(residual < 0, 1.0, 3.0)
    return -2 * weight * residual, 2 * weight


def loss(prediction, data):
    residual = data.get_label() - prediction
    return "asymmetric", float(np.mean(np.where(residual < 0, 1.0, 3.0) * residual**2)), False


train = lgb.Dataset(X[:600], y[:600], free_raw_data=False)
valid = lgb.Dataset(X[600:], y[600:], reference=train, free_raw_data=False)
for boosting in ("gbdt", "dart"):
    log = {}
    lgb.train(
        {
            "objective": asymmetric,
            "boosting": boosting,
            "learning_rate": 0.1,
            "num_leaves": 15,
            "verbose": -1,
            "bagging_fraction": 0.8,
            "bagging_freq": 1,
            "feature_fraction": 0.8,
            "num_threads": 1,
        },
        train,
        steps // 4,
        valid_sets=[train, valid],
        valid_names=["train", "valid"],
        feval=loss,
        callbacks=[lgb.record_evaluation(log)],
    )
    curve = log["valid"]["asymmetric"]
    print(boosting, curve[0], curve[-1])
print(f"loss fell from {curve[0]:.4g} to {curve[-1]:.4g}")
