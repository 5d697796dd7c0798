"""An XGBoost booster at the end of a round."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from leadline.frameworks.boosting.booster import Array, Booster, BoosterConstants, Evaluation, Floats
from leadline.frameworks.boosting.tables import TreeTable
from leadline.frameworks.xgboost.configuration import settings_of
from leadline.frameworks.xgboost.library import Library

_TOTALS: Final = {"gain": "total_gain", "cover": "total_cover"}


class XGBoostBooster(Booster):
    """See ``leadline.frameworks.boosting.booster.Booster``.

    Predictions are those that XGBoost has cached for the metrics: reading them costs one copy.

    Args:
        evals: The evaluation sets with their names.
    """

    def __init__(self, booster: Any, dtrain: Any, evals: Sequence[tuple[Any, str]]) -> None:
        super().__init__(booster)
        self._dtrain, self._evals = dtrain, evals

    def read_constants(self) -> BoosterConstants:
        settings, named = self.settings(), self._booster.feature_names
        features = tuple(named) if named else tuple(f"f{index}" for index in range(self._booster.num_features()))
        return BoosterConstants(str(settings["objective"]), str(settings["booster"]), features)

    def importances(self) -> dict[str, Floats]:
        """Compute the means from the totals, which saves XGBoost two traversals of all trees."""
        if self.constants.kind == "gblinear":
            return {"weight": self._linear_weights()}
        weight = self._importance("weight")
        totals = {kind: self._importance(total) for kind, total in _TOTALS.items()}
        means = {
            kind: np.divide(total, weight, np.zeros_like(total), where=weight > 0) for kind, total in totals.items()
        }
        return {"weight": weight, **means, **{_TOTALS[kind]: total for kind, total in totals.items()}}

    def _importance(self, kind: str) -> Floats:
        library = _library()
        if library is None:
            scores = self._booster.get_score(importance_type=kind)
            return np.array([scores.get(feature, 0.0) for feature in self.constants.features], np.float64)
        indices = {name.encode(): index for index, name in enumerate(self.constants.features)}
        return library.importance(self._booster, kind, indices)

    def _linear_weights(self) -> Floats:
        """Return the weights of a linear model; with several outputs a feature has one weight for each."""
        scores = self._booster.get_score(importance_type="weight")
        return np.array([_magnitude(scores.get(feature, 0.0)) for feature in self.constants.features], np.float64)

    def contributions(self) -> Floats | None:
        contributions = self._booster.predict(self._dtrain, pred_contribs=True, validate_features=False)
        return np.asarray(contributions, np.float64)

    def trees(self) -> dict[str, Array]:
        last = self._booster.num_boosted_rounds() - 1
        if last < 0 or self.constants.kind == "gblinear":
            return {}
        table = TreeTable(self.constants.features)
        for tree, dumped in enumerate(self._booster[last : last + 1].get_dump(dump_format="json", with_stats=True)):
            _walk(json.loads(dumped), tree, 0, table)
        return table.columns()

    def evaluation(self) -> Evaluation | None:
        name, data = self._validation_set()
        labels = data.get_label()
        if not labels.size:
            return None
        predictions = self._predictions(data)
        return Evaluation(
            name,
            labels.reshape(len(predictions), -1).squeeze(1) if _is_flat(labels, predictions) else labels,
            predictions,
        )

    def _predictions(self, data: Any) -> Array:
        library = _library()
        if library is None:
            return np.asarray(self._booster.predict(data, validate_features=False))
        return library.predictions(self._booster, data)

    def evaluation_name(self) -> str | None:
        return self._validation_set()[0]

    def _validation_set(self) -> tuple[str, Any]:
        """Return the last set that is not the training data: the one that early stopping uses."""
        held_out = [(name, data) for data, name in self._evals if data is not self._dtrain]
        return held_out[-1] if held_out else ("train", self._dtrain)

    def settings(self) -> dict[str, float | str]:
        return settings_of(self._booster)


@functools.cache
def _library() -> Library | None:
    """Return the native library; None if this version differs, then the package's own methods are used."""
    try:
        return Library()
    except AttributeError:
        return None


def _magnitude(weight: float | list[float]) -> float:
    return sum(map(abs, weight)) if isinstance(weight, list) else abs(weight)


def _is_flat(labels: Array, predictions: Array) -> bool:
    return labels.size == len(predictions)


def _walk(node: dict[str, Any], tree: int, depth: int, table: TreeTable) -> None:
    """Add a node and all its descendants to the table."""
    if "leaf" in node:
        table.leaf(tree, node["nodeid"], depth, value=float(np.sum(node["leaf"])), cover=node.get("cover"))
        return
    condition = node.get("split_condition")
    table.split(
        tree,
        node["nodeid"],
        depth,
        feature=node["split"],
        condition=float(condition) if isinstance(condition, (int, float)) else None,
        children=(node["yes"], node["no"], node["missing"]),
        gain=node.get("gain"),
        cover=node.get("cover"),
    )
    for child in node["children"]:
        _walk(child, tree, depth + 1, table)
