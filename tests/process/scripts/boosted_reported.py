"""XGBoost training of one kind of model, with scikit-learn's metrics of the last round.

Usage: boosted_reported.py binary|multiclass|regression; writes ``truth.json`` into the working directory.
"""

import json
import sys

import numpy as np
import xgboost
from sklearn import metrics
from sklearn.datasets import make_classification, make_regression

ROUNDS = 26
"""Labels and predictions are captured at every fifth round, including the last."""
SETTINGS = {
    "binary": {"objective": "binary:logistic", "eval_metric": ["logloss", "auc"]},
    "multiclass": {"objective": "multi:softprob", "num_class": 4},
    "regression": {"objective": "reg:squarederror"},
}


def data(kind: str) -> tuple[np.ndarray, np.ndarray]:
    if kind == "regression":
        return make_regression(600, 12, n_informative=6, noise=10.0, random_state=0)
    classes = {"binary": 2, "multiclass": 4}[kind]
    return make_classification(900, 12, n_informative=6, n_classes=classes, flip_y=0.1, random_state=0)


def truth(kind: str, labels: np.ndarray, given: np.ndarray) -> dict:
    if kind == "regression":
        return {"error": float(metrics.mean_absolute_error(labels, given)), "bias": float((labels - given).mean())}
    predicted = (given > 0.5) * 1 if kind == "binary" else given.argmax(axis=1)
    averages = {
        average: [float(n) for n in metrics.precision_recall_fscore_support(labels, predicted, average=average)[:3]]
        for average in ("micro", "macro", "weighted")
    }
    if kind == "binary":
        areas = {"1": float(metrics.roc_auc_score(labels, given))}
    else:
        areas = {str(label): float(metrics.roc_auc_score(labels == label, given[:, label])) for label in range(4)}
    return {"confusion": metrics.confusion_matrix(labels, predicted).tolist(), "averages": averages, "areas": areas}


def main() -> None:
    kind = sys.argv[1]
    x, y = data(kind)
    half = len(y) // 2
    train, valid = xgboost.DMatrix(x[:half], y[:half]), xgboost.DMatrix(x[half:], y[half:])
    settings = {**SETTINGS[kind], "nthread": 1, "max_depth": 3}
    booster = xgboost.train(settings, train, ROUNDS, [(train, "train"), (valid, "holdout")], verbose_eval=False)
    with open("truth.json", "w") as file:
        json.dump(truth(kind, y[half:], booster.predict(valid)), file)


if __name__ == "__main__":
    main()
