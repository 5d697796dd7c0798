"""A booster of LightGBM as a round has left it."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, Final

import lightgbm
import numpy as np

from leadline.frameworks.boosting.booster import Array, Evaluated, Floats
from leadline.frameworks.boosting.tables import TreeTable
from leadline.frameworks.lightgbm.configuration import settings_of

_KINDS: Final = ("split", "gain")


@dataclass(frozen=True, slots=True)
class _Known:
    """What of a booster does not change while it is trained."""

    objective: str
    kind: str
    """``gbdt``, ``dart`` or ``rf``."""
    features: tuple[str, ...]


_KNOWN: Final[weakref.WeakKeyDictionary[Any, _Known]] = weakref.WeakKeyDictionary()


class LightGBMBooster:
    """See ``leadline.frameworks.boosting.booster.Booster``.

    Predictions are the scores that LightGBM keeps of its evaluation sets: asking for them costs a copy.
    """

    def __init__(self, booster: Any) -> None:
        self._booster = booster

    @property
    def objective(self) -> str:
        """Without its parameters: ``binary sigmoid:1`` is ``binary``."""
        return self._known().objective

    @property
    def features(self) -> tuple[str, ...]:
        return self._known().features

    def _known(self) -> _Known:
        found = _KNOWN.get(self._booster)
        if found is None:
            settings = self.settings()
            objective = str(settings.get("objective", "")).partition(" ")[0]
            features = tuple(self._booster.feature_name())
            found = _KNOWN[self._booster] = _Known(objective, str(settings["booster"]), features)
        return found

    def importances(self) -> dict[str, Floats]:
        return {kind: np.asarray(self._booster.feature_importance(kind, iteration=-1), np.float64) for kind in _KINDS}

    def contributions(self) -> Floats | None:
        data = getattr(self._booster.train_set, "data", None)
        if data is None:
            return None  # LightGBM frees the samples once it has binned them, but for free_raw_data=False
        # Of a booster in training LightGBM works them out in threads that may end the process ("max_depth_ >= 0").
        copy = lightgbm.Booster(model_str=self._booster.model_to_string(num_iteration=-1))
        found = copy.predict(data, pred_contrib=True, num_iteration=-1)
        parts = found if isinstance(found, list) else [found]
        dense = [np.asarray(each.todense() if hasattr(each, "todense") else each, np.float64) for each in parts]
        if len(dense) > 1:
            return np.stack(dense, axis=1)
        width = len(self.features) + 1
        return dense[0] if dense[0].shape[1] == width else dense[0].reshape(len(dense[0]), -1, width)

    def trees(self) -> dict[str, Array]:
        last = self._booster.current_iteration() - 1
        if last < 0:
            return {}
        features = self.features
        table = TreeTable(features)
        for tree, dumped in enumerate(self._booster.dump_model(num_iteration=1, start_iteration=last)["tree_info"]):
            _walk(dumped["tree_structure"], (tree, dumped["num_leaves"]), 0, (table, features))
        return table.columns()

    def evaluated(self) -> Evaluated | None:
        if self._booster.valid_sets:
            name, data = self._booster.name_valid_sets[-1], self._booster.valid_sets[-1]
            at = len(self._booster.valid_sets)
        else:
            name, data, at = self._booster._train_data_name, self._booster.train_set, 0
            if self._known().kind == "dart":
                return None  # to ask for the scores of the training data would drop trees
        labels = data.get_label()
        if labels is None:
            return None
        return Evaluated(name, np.asarray(labels), np.array(self._booster._Booster__inner_predict(data_idx=at)))

    def evaluated_name(self) -> str | None:
        names = self._booster.name_valid_sets
        return str(names[-1] if names else self._booster._train_data_name)

    def settings(self) -> dict[str, float | str]:
        return settings_of(self._booster)


def _walk(node: dict[str, Any], tree: tuple[int, int], depth: int, into: tuple[TreeTable, tuple[str, ...]]) -> None:
    """A node and all below it.

    Args:
        tree: Its number, and how many leaves it has.
        into: The table, and the names of the features.
    """
    table, features = into
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
        _walk(child, tree, depth + 1, into)


def _number(node: dict[str, Any], tree: tuple[int, int]) -> int:
    """Splits are counted first, then leaves."""
    if "split_index" in node:
        return int(node["split_index"])
    return tree[1] - 1 + int(node.get("leaf_index", 0))
