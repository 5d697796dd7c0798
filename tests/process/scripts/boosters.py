"""Typical gradient boosting trainings; a callback of the script records what the framework itself returns.

Arguments: a folder for the records, then the kinds; kinds after ``endless`` do not end.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import xgboost
from lightgbm import train as lightgbm_train
from xgboost import train

ENDLESS = 1_000_000
is_endless = False
IMPORTANCES = ("weight", "gain", "cover", "total_gain", "total_cover")
NODE = re.compile(
    r"^(\t*)(\d+):(?:\[(\w+)<([^\]]+)\] yes=(\d+),no=(\d+),missing=(\d+),gain=([^,]+),cover=(\S+)"
    r"|leaf=([^,]+),cover=(\S+))$",
    re.MULTILINE,
)


def samples(classes: int = 2, rows: int = 600) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(7)
    features = generator.normal(size=(rows, 6)).astype(np.float32)
    score = features[:, 0] + 0.5 * features[:, 1] ** 2 + 0.2 * generator.normal(size=rows)
    if classes == 0:
        return features, score.astype(np.float32)
    edges = np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1])
    return features, np.searchsorted(edges, score).astype(np.int64)


def rounds_of(count: int) -> int:
    return ENDLESS if is_endless else count


def halves(classes: int = 2) -> tuple[Any, Any]:
    features, labels = samples(classes)
    return xgboost.DMatrix(features[:400], labels[:400]), xgboost.DMatrix(features[400:], labels[400:])


class Truth(xgboost.callback.TrainingCallback):
    """Records of XGBoost itself at the end of every round."""

    def __init__(self, held: Any, trained: Any) -> None:
        self.held, self.trained = held, trained
        self.rounds: list[dict[str, Any]] = []

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        if is_endless:
            return False
        last = model.num_boosted_rounds() - 1
        of_round = model[last : last + 1]
        shap = model.predict(self.trained, pred_contribs=True)
        self.rounds.append(
            {
                "importances": {kind: model.get_score(importance_type=kind) for kind in IMPORTANCES},
                "predictions": model.predict(self.held).tolist(),
                "labels": self.held.get_label().tolist(),
                "shap": shap.mean(axis=tuple(range(shap.ndim - 1)), dtype=np.float64).tolist(),
                "trees": [NODE.findall(tree) for tree in of_round.get_dump(with_stats=True)],
            }
        )
        return False


class Witness(xgboost.callback.TrainingCallback):
    """Records its calls, which shows the order of the user's callbacks."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def before_training(self, model: Any) -> Any:
        self.calls.append("begin")
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        self.calls.append(str(epoch))
        return False

    def after_training(self, model: Any) -> Any:
        self.calls.append("end")
        return model


def xgboost_run(parameters: dict[str, Any], classes: int, rounds: int = 12, **more: Any) -> dict[str, Any]:
    trained, held = halves(classes)
    truth, witness, scores = Truth(held, trained), Witness(), {}
    model = train(
        {"max_depth": 3, "nthread": 1, "seed": 3, **parameters},
        trained,
        rounds_of(rounds),
        evals=[(trained, "train"), (held, "held")],
        evals_result=scores,
        verbose_eval=False,
        callbacks=[witness, truth],
        **more,
    )
    return {"digest": digest(model.save_raw()), "scores": scores, "rounds": truth.rounds, "calls": witness.calls}


def digest(model: Any) -> str:
    """Return the digest of a model and of the states of both random number generators."""
    state = repr((random.getstate(), np.random.get_state()[1].tolist())).encode()
    return hashlib.sha256(bytes(model) + state).hexdigest()


def binary() -> dict[str, Any]:
    return xgboost_run({"objective": "binary:logistic", "eval_metric": ["logloss", "auc"], "subsample": 0.8}, 2)


def multiclass() -> dict[str, Any]:
    return xgboost_run({"objective": "multi:softprob", "num_class": 3, "eval_metric": ["mlogloss", "merror"]}, 3)


def softmax() -> dict[str, Any]:
    return xgboost_run({"objective": "multi:softmax", "num_class": 3}, 3)


def regression() -> dict[str, Any]:
    return xgboost_run({"objective": "reg:squarederror", "eval_metric": ["rmse", "mae"]}, 0)


def early_stopping() -> dict[str, Any]:
    return xgboost_run({"objective": "binary:logistic", "eta": 1.0, "max_depth": 6}, 2, 200, early_stopping_rounds=3)


def dart() -> dict[str, Any]:
    return xgboost_run({"objective": "binary:logistic", "booster": "dart", "rate_drop": 0.3}, 2)


def own_objective() -> dict[str, Any]:
    def squared(predicted: np.ndarray, data: Any) -> tuple[np.ndarray, np.ndarray]:
        return predicted - data.get_label(), np.ones_like(predicted)

    def off(predicted: np.ndarray, data: Any) -> tuple[str, float]:
        return "off_error", float(np.mean(np.abs(predicted - data.get_label())))

    return xgboost_run({"disable_default_eval_metric": True}, 0, obj=squared, custom_metric=off)


def continued() -> dict[str, Any]:
    trained, _ = halves(2)
    first = xgboost.train({"max_depth": 3, "nthread": 1, "objective": "binary:logistic"}, trained, 5)
    return xgboost_run({"objective": "binary:logistic"}, 2, xgb_model=first)


def ranking() -> dict[str, Any]:
    features, labels = samples(4)
    data = [xgboost.DMatrix(features[at], labels[at]) for at in (slice(0, 400), slice(400, 600))]
    for matrix in data:
        matrix.set_group([20] * (matrix.num_row() // 20))
    truth, scores = Truth(data[1], data[0]), {}
    model = xgboost.train(
        {"objective": "rank:ndcg", "nthread": 1, "max_depth": 3},
        data[0],
        12,
        callbacks=[truth],
        evals=[(data[0], "train"), (data[1], "held")],
        evals_result=scores,
        verbose_eval=False,
    )
    return {"digest": digest(model.save_raw()), "scores": scores, "rounds": truth.rounds}


def linear() -> dict[str, Any]:
    trained, held = halves(0)
    scores: dict[str, Any] = {}
    model = xgboost.train(
        {"booster": "gblinear", "nthread": 1, "updater": "coord_descent"},
        trained,
        10,
        evals=[(held, "held")],
        evals_result=scores,
        verbose_eval=False,
    )
    return {"digest": digest(model.save_raw()), "scores": scores}


def folds() -> dict[str, Any]:
    trained, _ = halves(2)
    found = xgboost.cv(
        {"objective": "binary:logistic", "nthread": 1, "max_depth": 3},
        trained,
        rounds_of(10),
        nfold=3,
        metrics=["logloss"],
        as_pandas=False,
        seed=5,
    )
    return {"digest": digest(json.dumps(found).encode()), "folds": found}


def estimators() -> dict[str, Any]:
    features, labels = samples(2)
    model = xgboost.XGBClassifier(n_estimators=rounds_of(8), max_depth=3, n_jobs=1, eval_metric="logloss")
    model.fit(features[:400], labels[:400], eval_set=[(features[400:], labels[400:])], verbose=False)
    forest = xgboost.XGBRFRegressor(n_estimators=10, max_depth=3, n_jobs=1, random_state=1)
    forest.fit(features, samples(0)[1])
    raw = bytes(model.get_booster().save_raw()) + bytes(forest.get_booster().save_raw())
    return {"digest": digest(raw), "scores": {"validation_0": model.evals_result()["validation_0"]}}


def by_hand() -> dict[str, Any]:
    trained, _ = halves(2)
    model = xgboost.Booster({"objective": "binary:logistic", "nthread": 1}, [trained])
    for at in range(7):
        model.update(trained, at)
    return {"digest": digest(model.save_raw())}


def lightgbm_run(parameters: dict[str, Any], classes: int, rounds: int = 12, **more: Any) -> dict[str, Any]:
    features, labels = samples(classes)
    trained = lightgbm.Dataset(features[:400], labels[:400], free_raw_data=False)
    held = lightgbm.Dataset(features[400:], labels[400:], reference=trained)
    scores: dict[str, Any] = {}
    truth: list[dict[str, Any]] = []

    def look(env: Any) -> None:
        if is_endless:
            return
        copy = lightgbm.Booster(model_str=env.model.model_to_string(num_iteration=-1))
        truth.append(
            {
                "importances": {
                    kind: dict(zip(copy.feature_name(), map(float, copy.feature_importance(kind, -1)), strict=True))
                    for kind in ("split", "gain")
                },
                "predictions": copy.predict(features[400:]).tolist(),
                "labels": labels[400:].tolist(),
            }
        )

    given = {"verbosity": -1, "num_threads": 1, "deterministic": True, "seed": 3, "num_leaves": 8, **parameters}
    model = lightgbm_train(
        given,
        trained,
        rounds_of(rounds),
        valid_sets=[trained, held],
        valid_names=["train", "held"],
        callbacks=[lightgbm.record_evaluation(scores), look, *more.pop("callbacks", ())],
        **more,
    )
    return {"digest": digest(model.model_to_string().encode()), "scores": scores, "rounds": truth}


def lightgbm_binary() -> dict[str, Any]:
    parameters = {
        "objective": "binary",
        "metric": ["binary_logloss", "auc"],
        "bagging_fraction": 0.8,
        "bagging_freq": 1,
    }
    return lightgbm_run(parameters, 2)


def lightgbm_multiclass() -> dict[str, Any]:
    return lightgbm_run({"objective": "multiclass", "num_class": 3}, 3)


def lightgbm_regression() -> dict[str, Any]:
    return lightgbm_run({"objective": "regression", "metric": ["l2", "l1"]}, 0)


def lightgbm_early_stopping() -> dict[str, Any]:
    stopping = lightgbm.early_stopping(3, verbose=False)
    return lightgbm_run({"objective": "binary", "learning_rate": 1.0}, 2, 200, callbacks=[stopping])


def lightgbm_continued() -> dict[str, Any]:
    features, labels = samples(2)
    first = lightgbm.train(
        {"objective": "binary", "verbosity": -1, "num_threads": 1}, lightgbm.Dataset(features[:400], labels[:400]), 5
    )
    return lightgbm_run({"objective": "binary"}, 2, init_model=first)


def lightgbm_dart() -> dict[str, Any]:
    features, labels = samples(2)
    parameters = {"objective": "binary", "boosting": "dart", "verbosity": -1, "num_threads": 1, "drop_rate": 0.4}
    model = lightgbm.train(parameters, lightgbm.Dataset(features, labels), 15)
    return {"digest": digest(model.model_to_string().encode())}


def lightgbm_folds() -> dict[str, Any]:
    features, labels = samples(2)
    found = lightgbm.cv(
        {"objective": "binary", "verbosity": -1, "num_threads": 1},
        lightgbm.Dataset(features, labels),
        rounds_of(10),
        nfold=3,
    )
    return {"digest": digest(json.dumps(found).encode()), "folds": found}


def lightgbm_estimators() -> dict[str, Any]:
    features, labels = samples(2)
    model = lightgbm.LGBMClassifier(n_estimators=8, num_leaves=8, n_jobs=1, verbosity=-1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(features[:400], labels[:400], eval_set=[(features[400:], labels[400:])])
    return {"digest": digest(model.booster_.model_to_string().encode()), "scores": model.evals_result_}


def main(folder: str, *kinds: str) -> None:
    global is_endless
    for kind in kinds:
        if kind == "endless":
            is_endless = True
            continue
        random.seed(1)
        np.random.seed(1)
        Path(folder, f"{kind}.json").write_text(json.dumps(globals()[kind]()))


if __name__ == "__main__":
    main(*sys.argv[1:])
