"""Hyperparameters of a booster as XGBoost has resolved them."""

from __future__ import annotations

import json
from typing import Any, Final

_SECTIONS: Final = frozenset(
    {
        "generic_param",
        "gbtree_train_param",
        "gbtree_model_param",
        "dart_train_param",
        "tree_train_param",
        "gblinear_train_param",
        "learner_model_param",
        "learner_train_param",
        "objective",
    }
)
"""The sections of the configuration that hold hyperparameters; the others describe how XGBoost computes."""
_NO_SETTINGS: Final = frozenset({"num_trees", "fail_on_invalid_gpu_id", "validate_parameters", "name"})


def booster_of(owner: Any) -> Any:
    """Return the booster that is trained; with several folds that of the first."""
    folds = getattr(owner, "cvfolds", None)
    return folds[0].bst if folds else owner


def settings_of(booster: Any) -> dict[str, float | str]:
    """Return the hyperparameters, numbers as floats; ``eval_metric`` lists all metrics, ``booster`` names the kind."""
    learner = json.loads(booster.save_config())["learner"]
    settings: dict[str, float | str] = {}
    _collect(learner, settings)
    settings["booster"] = str(learner["gradient_booster"]["name"])
    settings["objective"] = str(learner["learner_train_param"]["objective"])
    metrics = [str(metric["name"]) for metric in learner.get("metrics", ())]
    if metrics:
        settings["eval_metric"] = ",".join(metrics)
    return settings


def _collect(node: dict[str, Any], settings: dict[str, float | str], *, is_setting: bool = False) -> None:
    for key, value in node.items():
        if isinstance(value, dict):
            _collect(value, settings, is_setting=is_setting or key in _SECTIONS)
        elif isinstance(value, str) and is_setting and key not in _NO_SETTINGS:
            settings[key] = _number(value)


def _number(text: str) -> float | str:
    try:
        return float(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return text
