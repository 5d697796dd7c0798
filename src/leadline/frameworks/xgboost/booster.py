"""A booster of XGBoost as a round has left it."""

from __future__ import annotations

import functools
import json
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from leadline.frameworks.boosting.booster import Array, Evaluated, Floats
from leadline.frameworks.boosting.tables import TreeTable
from leadline.frameworks.xgboost.configuration import settings_of
from leadline.frameworks.xgboost.library import Library

_TOTALS: Final = {"gain": "total_gain", "cover": "total_cover"}


@dataclass(frozen=True, slots=True)
class _Known:
    """What of a booster does not change while it is trained."""

    objective: str
    kind: str
    """``gbtree``, ``dart`` or ``gblinear``."""
    features: tuple[str, ...]
    places: dict[bytes, int]
    """Where each feature stands, by its name as the library has it."""


_KNOWN: Final[weakref.WeakKeyDictionary[Any, _Known]] = weakref.WeakKeyDictionary()


class XGBoostBooster:
    """See ``leadline.frameworks.boosting.booster.Booster``.

    Predictions are those that XGBoost has cached for the metrics: asking for them costs a copy.

    Args:
        evals: The evaluation sets with their names.
    """

    def __init__(self, booster: Any, dtrain: Any, evals: Sequence[tuple[Any, str]]) -> None:
        self._booster, self._dtrain, self._evals = booster, dtrain, evals

    @property
    def objective(self) -> str:
        return self._known().objective

    @property
    def features(self) -> tuple[str, ...]:
        return self._known().features

    def _known(self) -> _Known:
        found = _KNOWN.get(self._booster)
        if found is None:
            settings, named = self.settings(), self._booster.feature_names
            features = tuple(named) if named else tuple(f"f{at}" for at in range(self._booster.num_features()))
            places = {name.encode(): at for at, name in enumerate(features)}
            found = _Known(str(settings["objective"]), str(settings["booster"]), features, places)
            _KNOWN[self._booster] = found
        return found

    def importances(self) -> dict[str, Floats]:
        """Means are worked out of the totals, which spares XGBoost two walks through all trees."""
        if self._known().kind == "gblinear":
            return {"weight": self._of_linear_model()}
        weight = self._importance("weight")
        totals = {kind: self._importance(total) for kind, total in _TOTALS.items()}
        means = {kind: np.divide(each, weight, np.zeros_like(each), where=weight > 0) for kind, each in totals.items()}
        return {"weight": weight, **means, **{_TOTALS[kind]: each for kind, each in totals.items()}}

    def _importance(self, kind: str) -> Floats:
        library = _library()
        if library is None:
            found = self._booster.get_score(importance_type=kind)
            return np.array([found.get(each, 0.0) for each in self.features], np.float64)
        return library.importance(self._booster, kind, self._known().places)

    def _of_linear_model(self) -> Floats:
        """With several outputs a feature has a weight for each of them."""
        found = self._booster.get_score(importance_type="weight")
        return np.array([_size(found.get(each, 0.0)) for each in self.features], np.float64)

    def contributions(self) -> Floats | None:
        found = self._booster.predict(self._dtrain, pred_contribs=True, validate_features=False)
        return np.asarray(found, np.float64)

    def trees(self) -> dict[str, Array]:
        last = self._booster.num_boosted_rounds() - 1
        if last < 0 or self._known().kind == "gblinear":
            return {}
        table = TreeTable(self.features)
        for tree, dumped in enumerate(self._booster[last : last + 1].get_dump(dump_format="json", with_stats=True)):
            _walk(json.loads(dumped), tree, 0, table)
        return table.columns()

    def evaluated(self) -> Evaluated | None:
        name, data = self._chosen()
        labels = data.get_label()
        if not labels.size:
            return None
        predictions = self._predictions(data)
        return Evaluated(
            name,
            labels.reshape(len(predictions), -1).squeeze(1) if _is_flat(labels, predictions) else labels,
            predictions,
        )

    def _predictions(self, data: Any) -> Array:
        library = _library()
        if library is None:
            return np.asarray(self._booster.predict(data, validate_features=False))
        return library.predictions(self._booster, data)

    def evaluated_name(self) -> str | None:
        return self._chosen()[0]

    def _chosen(self) -> tuple[str, Any]:
        """The last set that is not the training data: the one that early stopping looks at."""
        held = [(name, data) for data, name in self._evals if data is not self._dtrain]
        return held[-1] if held else ("train", self._dtrain)

    def settings(self) -> dict[str, float | str]:
        return settings_of(self._booster)


@functools.cache
def _library() -> Library | None:
    """None: this version's library is another; the package's own methods are asked."""
    try:
        return Library()
    except AttributeError:
        return None


def _size(found: float | list[float]) -> float:
    return sum(map(abs, found)) if isinstance(found, list) else abs(found)


def _is_flat(labels: Array, predictions: Array) -> bool:
    return labels.size == len(predictions)


def _walk(node: dict[str, Any], tree: int, depth: int, table: TreeTable) -> None:
    """A node and all below it."""
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
