"""XGBoost: who cancels their contract? Stops early when the watched score gets no better."""

import sys

import numpy as np
import xgboost as xgb

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"


def customers(n, rng):
    x = rng.normal(size=(n, 15))
    chance = 1 / (1 + np.exp(-(x[:, 0] + 0.7 * x[:, 1] * x[:, 2] - 0.5)))
    return x, (rng.random(n) < chance).astype(int)


def log_loss(p, y):
    p = np.clip(p, 1e-7, 1 - 1e-7)
    return -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))


def main():
    rng = np.random.default_rng(0)
    train = xgb.DMatrix(*customers(1500, rng))
    val = xgb.DMatrix(*customers(700, rng))
    test_x, test_y = customers(4000, rng)
    watched = [(train, "train"), (val, "eval")] if FIXED else [(val, "eval"), (train, "train")]
    parameters = {
        "objective": "binary:logistic",
        "eval_metric": "logloss",
        "eta": 0.15,
        "max_depth": 5,
        "nthread": 2,
        "seed": 0,
    }
    model = xgb.train(parameters, train, num_boost_round=300, evals=watched, early_stopping_rounds=20, verbose_eval=50)
    test = xgb.DMatrix(test_x)
    predicted = model.predict(test, iteration_range=(0, model.best_iteration + 1))
    print(f"best round {model.best_iteration}, score {model.best_score:.4f}")
    print(f"final test log loss {log_loss(predicted, test_y):.4f}  acc {np.mean((predicted > 0.5) == test_y):.3f}")


if __name__ == "__main__":
    main()
