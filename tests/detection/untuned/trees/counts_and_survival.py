"""Poisson counts with an offset, then accelerated failure times: two boosters of two objectives."""

import sys

import numpy as np
import xgboost as xgb

steps = int(sys.argv[1])
rng = np.random.default_rng(int(sys.argv[2]))
X = rng.normal(size=(800, 5))
exposure = rng.uniform(0.5, 4, 800)
claims = rng.poisson(exposure * np.exp(-0.5 + 0.6 * X[:, 0] - 0.4 * X[:, 1]))
data = xgb.DMatrix(X, claims, base_margin=np.log(exposure))
log = {}
xgb.train(
    {"objective": "count:poisson", "eta": 0.1, "max_depth": 3, "nthread": 1},
    data,
    steps // 4,
    evals=[(data, "train")],
    evals_result=log,
    verbose_eval=False,
)
print("poisson", log["train"]["poisson-nloglik"][0], log["train"]["poisson-nloglik"][-1])
times = np.exp(1 + 0.8 * X[:, 0] + 0.3 * rng.normal(size=800))
censored = rng.random(800) < 0.3
survival, told = xgb.DMatrix(X), {}
survival.set_float_info("label_lower_bound", times)
survival.set_float_info("label_upper_bound", np.where(censored, np.inf, times))
aft = {"objective": "survival:aft", "aft_loss_distribution": "normal", "aft_loss_distribution_scale": 1.0}
xgb.train(
    {**aft, "eta": 0.1, "max_depth": 2, "nthread": 1},
    survival,
    steps // 4,
    evals=[(survival, "train")],
    evals_result=told,
    verbose_eval=False,
)
nll = told["train"]["aft-nloglik"]
print(f"loss fell from {nll[0]:.4g} to {nll[-1]:.4g}")
