"""Yield of a chemical reaction with LightGBM; there are only 42 experiments."""

import sys

import lightgbm as lgb
import numpy as np
from sklearn.model_selection import KFold

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
COLUMNS = ["temperature", "pressure", "catalyst", "minutes", "stirring", "solvent"]


def experiments(count, seed):
    rng = np.random.default_rng(seed)
    x = np.stack(
        [
            rng.uniform(40, 120, count),
            rng.uniform(1, 5, count),
            rng.uniform(0.1, 2.0, count),
            rng.uniform(10, 90, count),
            rng.uniform(100, 900, count),
            rng.integers(0, 3, count),
        ],
        1,
    )
    yields = 20 + 30 * (x[:, 2] > 0.8) + 0.35 * (x[:, 0] - 80) + 12 * (x[:, 5] == 1) + 0.1 * x[:, 3]
    return x, yields + rng.normal(0, 2, count)


def make_model(seed):
    parameters = {
        "objective": "regression",
        "n_estimators": 400,
        "learning_rate": 0.05,
        "num_leaves": 7,
        "subsample": 0.9,
        "subsample_freq": 1,
        "random_state": seed,
        "n_jobs": 1,
        "verbose": -1,
    }
    if FIXED:
        parameters["min_child_samples"] = 3
    return lgb.LGBMRegressor(**parameters)


def r2(predicted, target):
    return 1 - np.mean((predicted - target) ** 2) / np.var(target)


def main():
    x, y = experiments(42, 0)
    scores = []
    for repeat in range(60):
        predicted = np.zeros(len(y))
        for train, held_out in KFold(6, shuffle=True, random_state=repeat).split(x):
            model = make_model(repeat)
            model.fit(x[train], y[train], feature_name=COLUMNS)
            predicted[held_out] = model.predict(x[held_out])
        scores.append(r2(predicted, y))
        if repeat % 15 == 14:
            print(f"cross-validation {repeat + 1}: mean r2 {np.mean(scores):.3f}")

    model = make_model(0)
    model.fit(x, y, feature_name=COLUMNS)
    importance = sorted(zip(model.feature_importances_.tolist(), COLUMNS, strict=True), reverse=True)
    print("importance:", ", ".join(f"{name} {count}" for count, name in importance))
    new_x, new_y = experiments(500, 1)
    predicted = model.predict(new_x)
    print(f"predictions from {predicted.min():.1f} to {predicted.max():.1f}")
    print(f"r2 on 500 later experiments {r2(predicted, new_y):.3f}")


if __name__ == "__main__":
    main()
