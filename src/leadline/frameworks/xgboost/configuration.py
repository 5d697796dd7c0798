"""A booster's hyperparameters, as it has resolved them."""

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
"""What of the configuration is a setting; the rest says how it is computed."""
_NO_SETTINGS: Final = frozenset({"num_trees", "fail_on_invalid_gpu_id", "validate_parameters", "name"})


def booster_of(owner: Any) -> Any:
    """The booster that has the rounds; of several folds the first's."""
    folds = getattr(owner, "cvfolds", None)
    return folds[0].bst if folds else owner


def settings_of(booster: Any) -> dict[str, float | str]:
    """The hyperparameters, numbers as such; ``eval_metric`` is all metrics, ``booster`` the kind of model."""
    learner = json.loads(booster.save_config())["learner"]
    found: dict[str, float | str] = {}
    _gather(learner, found)
    found["booster"] = str(learner["gradient_booster"]["name"])
    found["objective"] = str(learner["learner_train_param"]["objective"])
    metrics = [str(each["name"]) for each in learner.get("metrics", ())]
    if metrics:
        found["eval_metric"] = ",".join(metrics)
    return found


def _gather(node: dict[str, Any], found: dict[str, float | str], *, is_setting: bool = False) -> None:
    for key, value in node.items():
        if isinstance(value, dict):
            _gather(value, found, is_setting=is_setting or key in _SECTIONS)
        elif isinstance(value, str) and is_setting and key not in _NO_SETTINGS:
            found[key] = _number(value)


def _number(spoken: str) -> float | str:
    try:
        return float(spoken.removeprefix("[").removesuffix("]"))
    except ValueError:
        return spoken
