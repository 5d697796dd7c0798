"""A LightGBM booster at the end of a round."""

from __future__ import annotations

from typing import Any, Final

import lightgbm
import numpy as np

from leadline.frameworks.boosting.booster import Array, Booster, BoosterConstants, Evaluation, Floats
from leadline.frameworks.boosting.tables import TreeTable
from leadline.frameworks.lightgbm.configuration import settings_of

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
        if self._booster.valid_sets:
            name, data = self._booster.name_valid_sets[-1], self._booster.valid_sets[-1]
            index = len(self._booster.valid_sets)
        else:
            name, data, index = self._booster._train_data_name, self._booster.train_set, 0
            if self.constants.kind == "dart":
                return None  # reading the scores of the training data would drop trees
        labels = data.get_label()
        if labels is None:
            return None
        return Evaluation(name, np.asarray(labels), np.array(self._booster._Booster__inner_predict(data_idx=index)))

    def evaluation_name(self) -> str | None:
        names = self._booster.name_valid_sets
        return str(names[-1] if names else self._booster._train_data_name)

    def settings(self) -> dict[str, float | str]:
        return settings_of(self._booster)


def _walk(node: dict[str, Any], tree: tuple[int, int], depth: int, target: tuple[TreeTable, tuple[str, ...]]) -> None:
    """Add a node and all its descendants to a table.

    Args:
        tree: The number of the tree and of its leaves.
        target: The table and the feature names.
    """
    table, features = target
    if "split_index" not in node:
        table.leaf(tree[0], _number(node, tree), depth, value=node["leaf_value"], cover=node.get("leaf_weight"))
        return
    left, right = _number(node["left_child"], tree), _number(node["right_child"], tree)
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


def _number(node: dict[str, Any], tree: tuple[int, int]) -> int:
    """Return the number of a node: splits are numbered first, then leaves."""
    if "split_index" in node:
        return int(node["split_index"])
    return tree[1] - 1 + int(node.get("leaf_index", 0))
