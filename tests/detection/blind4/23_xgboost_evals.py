"""Credit default with XGBoost and early stopping."""

import sys

import numpy as np
import xgboost as xgb

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"


def load_credits(count, seed):
    """Twenty columns, of which some matter; whether a credit fails is a matter of chance to a good part."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, (count, 20))
    x[:, 15:] = rng.integers(0, 5, (count, 5))
    score = 0.8 * x[:, 0] - 0.6 * x[:, 1] + 0.5 * x[:, 2] * x[:, 3] + 0.4 * (x[:, 15] > 2) - 0.3 * x[:, 4] ** 2
    fails = rng.random(count) < 1 / (1 + np.exp(-score))
    return x, fails.astype(int)


def log_loss(probability, label):
    probability = np.clip(probability, 1e-7, 1 - 1e-7)
    return -np.mean(label * np.log(probability) + (1 - label) * np.log(1 - probability))


def auc(probability, label):
    order = np.argsort(np.argsort(probability))
    positive = label == 1
    pairs = positive.sum() * (~positive).sum()
    return (order[positive].sum() - positive.sum() * (positive.sum() - 1) / 2) / pairs


def calibration(probability, label):
    """How often credits fail that are given a probability of less than 5 % or more than 95 %."""
    for name, chosen in (("below 5 %", probability < 0.05), ("above 95 %", probability > 0.95)):
        if chosen.any():
            print(f"probability {name}: {chosen.sum()} credits, {label[chosen].mean():.2f} of them fail")


def main():
    x, y = load_credits(9000, 0)
    test_x, test_y = load_credits(4000, 1)
    dtrain = xgb.DMatrix(x[:7000], y[:7000])
    dval = xgb.DMatrix(x[7000:], y[7000:])
    dtest = xgb.DMatrix(test_x)

    evals = [(dtrain, "train"), (dval, "eval")] if FIXED else [(dval, "eval"), (dtrain, "train")]
    parameters = {
        "objective": "binary:logistic",
        "eval_metric": "logloss",
        "eta": 0.05,
        "max_depth": 6,
        "subsample": 0.8,
        "colsample_bytree": 0.8,
        "seed": 0,
        "nthread": 1,
    }
    booster = xgb.train(
        parameters,
        dtrain,
        num_boost_round=4000,
        evals=evals,
        early_stopping_rounds=50,
        verbose_eval=200,
    )
    print(f"best iteration {booster.best_iteration}, best score {booster.best_score:.4f}")
    probability = booster.predict(dtest, iteration_range=(0, booster.best_iteration + 1))
    calibration(probability, test_y)
    base = log_loss(np.full(len(test_y), y.mean()), test_y)
    print(f"log loss of the mean alone {base:.4f}, test auc {auc(probability, test_y):.4f}")
    print(f"test log loss {log_loss(probability, test_y):.4f}")


if __name__ == "__main__":
    main()
