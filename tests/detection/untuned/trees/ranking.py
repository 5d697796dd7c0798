"""Learning to rank with queries of unequal length, by NDCG."""

import sys

import numpy as np
import xgboost as xgb

steps = int(sys.argv[1])
rng = np.random.default_rng(int(sys.argv[2]))


def queries(n):
    sizes = rng.integers(5, 20, n)
    X = rng.normal(size=(sizes.sum(), 6))
    relevance = X[:, 0] + 0.7 * X[:, 1] * X[:, 2] + 0.4 * rng.normal(size=len(X))
    data = xgb.DMatrix(X, np.digitize(relevance, [0.7]))
    data.set_group(sizes.tolist())
    return data


train, valid, log = queries(80), queries(30), {}
xgb.train(
    {
        "objective": "rank:ndcg",
        "ndcg_exp_gain": True,
        "eval_metric": ["ndcg@5", "map@5"],
        "eta": 0.1,
        "max_depth": 3,
        "nthread": 1,
    },
    train,
    steps // 4,
    evals=[(train, "train"), (valid, "valid")],
    evals_result=log,
    verbose_eval=False,
)
missing = [1 - gain for gain in log["train"]["ndcg@5"]]
print(f"missing gain fell from {missing[0]:.4g} to {missing[-1]:.4g}")
