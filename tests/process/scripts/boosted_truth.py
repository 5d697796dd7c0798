"""Scikit-learn's metrics of labels and predictions: from XGBoost, and random ones with ties and missing classes.

Usage: boosted_truth.py FOLDER; writes ``answers.npz`` and ``truth.json`` there. Needs XGBoost and scikit-learn.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import xgboost
from sklearn import metrics
from sklearn.datasets import make_classification, make_regression

ROUNDS = 20


def trained(objective: str) -> tuple[np.ndarray, np.ndarray]:
    """Return labels and predictions of the held-out half."""
    if objective.startswith("reg"):
        x, y = make_regression(400, 10, noise=20.0, random_state=0)
    else:
        classes = 4 if objective.startswith("multi") else 2
        x, y = make_classification(400, 12, n_informative=6, n_classes=classes, flip_y=0.2, random_state=0)
    settings = {"objective": objective, "nthread": 1, "max_depth": 3}
    if objective.startswith("multi"):
        settings["num_class"] = 4
    booster = xgboost.train(settings, xgboost.DMatrix(x[:200], y[:200]), ROUNDS)
    return y[200:], booster.predict(xgboost.DMatrix(x[200:], y[200:]))


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return labels and scores with ties; some classes occur only as a label, only as a prediction, or not at all."""
    random = np.random.default_rng(seed)
    scores = random.integers(0, 5, (60, 5)).astype(np.float32)
    scores[:, 3] = -1.0
    scores[:, 4] = 0.5
    return random.choice([0, 1, 4], 60), scores


def truth(labels: np.ndarray, predicted: np.ndarray) -> dict:
    found = {}
    for average in ("micro", "macro", "weighted"):
        values = metrics.precision_recall_fscore_support(labels, predicted, average=average, zero_division=0)
        found[average] = [float(value) for value in values[:3]]
    size = int(max(labels.max(), predicted.max())) + 1
    by_class = metrics.precision_recall_fscore_support(labels, predicted, labels=range(size), zero_division=0)
    return {
        **found,
        "confusion": metrics.confusion_matrix(labels, predicted, labels=range(size)).tolist(),
        "by_class": np.array(by_class[:3]).T.tolist(),
    }


def curve(positive: np.ndarray, scores: np.ndarray) -> dict | None:
    if not 0 < positive.sum() < positive.size:
        return None
    false, true, _ = metrics.roc_curve(positive, scores, drop_intermediate=False)
    return {"false": false.tolist(), "true": true.tolist(), "auc": float(metrics.roc_auc_score(positive, scores))}


def main() -> None:
    warnings.simplefilter("error")
    folder, arrays, result = Path(sys.argv[1]), {}, {}
    cases = {name: trained(name) for name in ("binary:logistic", "binary:logitraw", "multi:softprob", "multi:softmax")}
    cases |= {f"drawn_{seed}": drawn(seed) for seed in range(6)}
    for name, (labels, scores) in cases.items():
        arrays[f"{name}/labels"], arrays[f"{name}/predictions"] = labels, scores
        if scores.ndim > 1:
            predicted = scores.argmax(axis=1)
            curves = {str(label): curve(labels == label, scores[:, label]) for label in range(scores.shape[1])}
            curves["micro"] = curve((labels[:, None] == np.arange(scores.shape[1])).ravel(), scores.ravel())
        else:
            predicted = scores.astype(int) if name == "multi:softmax" else (scores > (0 if "raw" in name else 0.5)) * 1
            curves = {} if name == "multi:softmax" else {"1": curve(labels == 1, scores)}
        result[name] = truth(labels, predicted) | {"curves": {key: points for key, points in curves.items() if points}}
    labels, predictions = trained("reg:squarederror")
    arrays["reg/labels"], arrays["reg/predictions"] = labels, predictions
    result["reg"] = {"error": float(metrics.mean_absolute_error(labels, predictions))}
    np.savez(folder / "answers.npz", **arrays)
    (folder / "truth.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
