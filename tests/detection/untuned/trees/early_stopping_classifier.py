"""XGBClassifier with an evaluation set, three classes and early stopping; a search over depths around it."""

import sys

import numpy as np
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

steps = int(sys.argv[1])
rng = np.random.default_rng(int(sys.argv[2]))
X = rng.normal(size=(900, 7))
y = np.digitize(X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=900), [0.3, 1.5])
X_train, X_valid, y_train, y_valid = train_test_split(X, y, random_state=0)
best = None
for depth in (2, 3, 5):
    model = XGBClassifier(
        n_estimators=steps, learning_rate=0.1, max_depth=depth, early_stopping_rounds=10, n_jobs=1, random_state=0
    )
    model.fit(X_train, y_train, eval_set=[(X_valid, y_valid)], verbose=False)
    losses = model.evals_result()["validation_0"]["mlogloss"]
    print(depth, model.best_iteration, min(losses))
    best = losses if best is None or min(losses) < min(best) else best
print(f"loss fell from {best[0]:.4g} to {min(best):.4g}")
