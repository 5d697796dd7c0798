"""Importances and predictions of boosters as Leadline reads them, compared with the package; prints the differences."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boosters
import numpy as np
import xgboost

from leadline.frameworks.xgboost import booster as booster_module
from leadline.frameworks.xgboost.booster import XGBoostBooster

KINDS: dict[str, tuple[dict[str, Any], int]] = {
    "binary": ({"objective": "binary:logistic"}, 2),
    "margin": ({"objective": "binary:logitraw"}, 2),
    "multiclass": ({"objective": "multi:softprob", "num_class": 3}, 3),
    "softmax": ({"objective": "multi:softmax", "num_class": 3}, 3),
    "regression": ({"objective": "reg:squarederror"}, 0),
    "quantile": ({"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.5, 0.9]}, 0),
    "dart": ({"objective": "binary:logistic", "booster": "dart", "rate_drop": 0.5}, 2),
    "linear": ({"objective": "multi:softprob", "num_class": 3, "booster": "gblinear"}, 3),
    "forest": ({"objective": "binary:logistic", "num_parallel_tree": 3, "subsample": 0.5}, 2),
    "vectors": (
        {"objective": "multi:softprob", "num_class": 3, "multi_strategy": "multi_output_tree", "tree_method": "hist"},
        3,
    ),
    "stump": ({"objective": "binary:logistic", "max_depth": 1, "gamma": 1e9}, 2),
}


def trained(kind: str, names: list[str] | None) -> tuple[Any, Any]:
    settings, classes = KINDS[kind]
    features, labels = boosters.samples(classes)
    data = xgboost.DMatrix(features, labels, feature_names=names)
    return xgboost.train({"nthread": 1, "max_depth": 3, "seed": 1, **settings}, data, 4), data


def differing() -> Iterator[str]:
    for kind in KINDS:
        for names in (None, ["a", "ä/ö", "x y", "日本", "f0", "last"]):
            model, data = trained(kind, names)
            booster = XGBoostBooster(model, data, ())
            for importance, values in booster.importances().items():
                truth = model.get_score(importance_type=importance)
                expected = [np.abs(truth.get(feature, 0.0)).sum() for feature in booster.constants.features]
                if not np.allclose(values, expected, rtol=1e-6, atol=0):
                    yield f"{kind} {importance}: {values} for {expected}"
            evaluation, truth = booster.evaluation(), model.predict(data)
            if evaluation is None or evaluation.predictions.dtype != truth.dtype:
                yield f"{kind} type"
            elif not np.array_equal(evaluation.predictions, truth):
                yield f"{kind} predictions"


if __name__ == "__main__":
    fast = list(differing())
    booster_module._library.cache_clear()
    booster_module.Library = None  # type: ignore[assignment,misc]

    def no_library() -> None:
        return None

    booster_module._library = no_library  # type: ignore[assignment]
    print(json.dumps({"kinds": len(KINDS), "differing": fast, "differing_without_library": list(differing())}))
