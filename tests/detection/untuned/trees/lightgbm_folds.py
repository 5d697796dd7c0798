"""lgb.cv and folds of LGBMClassifier with early stopping, a rare class, and weights for it."""

import sys

import lightgbm as lgb
import numpy as np
from sklearn.model_selection import StratifiedKFold

steps = int(sys.argv[1])
rng = np.random.default_rng(int(sys.argv[2]))
X = rng.normal(size=(1200, 8))
y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=1200) > 1.5).astype(int)
params = {"objective": "binary", "learning_rate": 0.05, "num_leaves": 15, "verbose": -1, "num_threads": 1}
table = lgb.cv(params, lgb.Dataset(X, y), steps // 6, nfold=3, seed=0)
print({name: values[-1] for name, values in table.items()})
for train, valid in StratifiedKFold(4, shuffle=True, random_state=1).split(X, y):
    model = lgb.LGBMClassifier(
        n_estimators=steps // 3, learning_rate=0.05, num_leaves=15, scale_pos_weight=4, verbose=-1, n_jobs=1
    )
    model.fit(
        X[train],
        y[train],
        eval_X=X[valid],
        eval_y=y[valid],
        callbacks=[lgb.early_stopping(10, verbose=False)],
    )
    losses = next(iter(next(iter(model.evals_result_.values())).values()))
    print(model.best_iteration_, min(losses))
print(f"loss fell from {losses[0]:.4g} to {min(losses):.4g}")
