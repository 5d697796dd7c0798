"""A LightGBM booster at the end of a round, and its hyperparameters."""

from __future__ import annotations

import re
import weakref
from typing import Any, Final

import lightgbm
import numpy as np

from leadline.frameworks.boosting.booster import Array, Booster, BoosterConstants, Evaluation, Floats, TreeTable
from leadline.records.json_object import JsonObject
from leadline.statistics.guessing import Scored

_KINDS: Final = ("split", "gain")


class LightGBMBooster(Booster):
    """See ``leadline.frameworks.boosting.booster.Booster``.

    Predictions are the scores that LightGBM keeps for its evaluation sets: reading them costs one copy.
    """

    def read_constants(self) -> BoosterConstants:
        settings = self.settings()
        objective = str(settings.get("objective", "")).partition(" ")[0]  # ``binary sigmoid:1``
        return BoosterConstants(objective, str(settings["booster"]), tuple(self._booster.feature_name()))

    def importances(self) -> dict[str, Floats]:
        return {kind: np.asarray(self._booster.feature_importance(kind, iteration=-1), np.float64) for kind in _KINDS}

    def contributions(self) -> Floats | None:
        data = getattr(self._booster.train_set, "data", None)
        if data is None:
            return None  # LightGBM frees the samples after binning, unless free_raw_data=False
        # On a booster in training LightGBM computes them in threads that may abort the process ("max_depth_ >= 0").
        copy = lightgbm.Booster(model_str=self._booster.model_to_string(num_iteration=-1))
        contributions = copy.predict(data, pred_contrib=True, num_iteration=-1)
        parts = contributions if isinstance(contributions, list) else [contributions]
        dense = [np.asarray(part.todense() if hasattr(part, "todense") else part, np.float64) for part in parts]
        if len(dense) > 1:
            return np.stack(dense, axis=1)
        width = len(self.constants.features) + 1
        return dense[0] if dense[0].shape[1] == width else dense[0].reshape(len(dense[0]), -1, width)

    def trees(self) -> dict[str, Array]:
        last = self._booster.current_iteration() - 1
        if last < 0:
            return {}
        features = self.constants.features
        table = TreeTable(features)
        for tree, dumped in enumerate(self._booster.dump_model(num_iteration=1, start_iteration=last)["tree_info"]):
            _walk(dumped["tree_structure"], (tree, dumped["num_leaves"]), 0, (table, features))
        return table.columns()

    def evaluation(self) -> Evaluation | None:
        name, data, index = self._validation_set()
        if index == 0 and self.constants.kind == "dart":
            return None  # reading the scores of the training data would drop trees
        labels = data.get_label()
        if labels is None:
            return None
        return Evaluation(name, np.asarray(labels), np.array(self._booster._Booster__inner_predict(data_idx=index)))

    def _validation_set(self) -> tuple[str, Any, int]:
        """Return the name of the last evaluation set, the set, and its index in the library; else the training data."""
        sets = self._booster.valid_sets
        if sets:
            return self._booster.name_valid_sets[-1], sets[-1], len(sets)
        return self._booster._train_data_name, self._booster.train_set, 0

    def scored(self) -> Scored | None:
        _, data, _ = self._validation_set()
        labels, settings = data.get_label(), self.settings()
        if labels is None:
            return None
        quantile = settings.get("alpha")
        gains = [float(gain) for gain in str(settings.get("label_gain", "")).split(",") if gain.strip()]
        table = np.array(gains)
        return Scored(
            np.asarray(labels),
            data.get_weight(),
            data.get_group(),
            (quantile,) if isinstance(quantile, float) else (),
            **({"gain": lambda of: table[of.astype(np.int64)]} if gains else {}),
        )

    def evaluation_name(self) -> str | None:
        return str(self._validation_set()[0])

    def settings(self) -> dict[str, float | str]:
        return settings_of(self._booster)


def _walk(node: JsonObject, tree: tuple[int, int], depth: int, target: tuple[TreeTable, tuple[str, ...]]) -> None:
    """Add a node and all its descendants to a table.

    Args:
        tree: The number of the tree and of its leaves.
        target: The table and the feature names.
    """
    table, features = target
    if "split_index" not in node:
        table.leaf(tree[0], _node_number(node, tree), depth, value=node["leaf_value"], cover=node.get("leaf_weight"))
        return
    left, right = _node_number(node["left_child"], tree), _node_number(node["right_child"], tree)
    threshold = node["threshold"]
    table.split(
        tree[0],
        node["split_index"],
        depth,
        feature=features[node["split_feature"]],
        condition=float(threshold) if isinstance(threshold, (int, float)) else None,
        children=(left, right, left if node["default_left"] else right),
        gain=node["split_gain"],
        cover=node.get("internal_weight"),
    )
    for child in (node["left_child"], node["right_child"]):
        _walk(child, tree, depth + 1, target)


def _node_number(node: JsonObject, tree: tuple[int, int]) -> int:
    """Return the number of a node: splits are numbered first, then leaves."""
    if "split_index" in node:
        return int(node["split_index"])
    return tree[1] - 1 + int(node.get("leaf_index", 0))


_LINE: Final = re.compile(r"^\[(\w+): (.*)\]$", re.MULTILINE)
_FILE_PARAMETERS: Final = frozenset(
    {
        "data",
        "valid",
        "input_model",
        "output_model",
        "output_result",
        "machines",
        "machine_list_filename",
        "config",
        "parser_config_file",
        "forcedsplits_filename",
        "forcedbins_filename",
        "convert_model",
        "convert_model_language",
        "initscore_filename",
        "valid_data_initscores",
    }
)
"""Parameters that name files, which are no hyperparameters."""
_CACHE: Final[weakref.WeakKeyDictionary[Any, tuple[str, dict[str, float | str]]]] = weakref.WeakKeyDictionary()
"""For each booster the parameters as the script gave them, and the hyperparameters that LightGBM resolved."""


def settings_of(owner: Any) -> dict[str, float | str]:
    """Return the hyperparameters, numbers as floats; with several folds those of the first.

    LightGBM only reports them as part of the whole model, so they are read again only when the script changes them.
    """
    folds = vars(owner).get("boosters")
    booster = folds[0] if folds else owner
    given, cached = repr(booster.params), _CACHE.get(booster)
    if cached is None or cached[0] != given:
        cached = _CACHE[booster] = (given, _read(booster))
    return dict(cached[1])


def _read(booster: Any) -> dict[str, float | str]:
    model_text = booster.model_to_string(num_iteration=1)
    _, _, parameters = model_text.partition("\nparameters:\n")
    settings: dict[str, float | str] = {
        name: _number(value) for name, value in _LINE.findall(parameters) if name not in _FILE_PARAMETERS
    }
    settings["booster"] = settings.get("boosting", "gbdt")
    settings["eval_metric"] = settings.get("metric", "")
    return settings


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
