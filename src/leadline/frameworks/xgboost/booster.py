"""An XGBoost booster at the end of a round, and its hyperparameters."""

from __future__ import annotations

import ctypes
import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from xgboost import core

from leadline.frameworks.boosting.booster import Array, Booster, BoosterConstants, Evaluation, Floats, TreeTable
from leadline.records.json_object import JsonObject
from leadline.statistics.guessing import Scored

_TOTALS: Final = {"gain": "total_gain", "cover": "total_cover"}


@dataclass(frozen=True, slots=True)
class GivenData:
    """The data that a script wants to be captured, in place of what it trains and evaluates with."""

    train: Any = None
    """The data whose SHAP values are computed; None: the training data."""
    validation: Any = None
    """The data whose labels and predictions are captured; None: the evaluation sets."""


class XGBoostBooster(Booster):
    """See ``leadline.frameworks.boosting.booster.Booster``.

    Predictions are those that XGBoost has cached for the metrics: reading them costs one copy.

    Args:
        evals: The evaluation sets with their names.
        given: Data that the script names itself.
    """

    def __init__(
        self, booster: Any, dtrain: Any, evals: Sequence[tuple[Any, str]], given: GivenData | None = None
    ) -> None:
        super().__init__(booster)
        self._dtrain, self._evals, self._given = dtrain, evals, given or GivenData()

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
        data = self._dtrain if self._given.train is None else self._given.train
        contributions = self._booster.predict(data, pred_contribs=True, validate_features=False)
        return np.asarray(contributions, np.float64)

    def trees(self) -> dict[str, Array]:
        last = self._booster.num_boosted_rounds() - 1
        if last < 0 or self.constants.kind == "gblinear":
            return {}
        table = TreeTable(self.constants.features, has_categories=True)
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
        if library is None or data is self._given.validation:
            return np.asarray(self._booster.predict(data, validate_features=False))
        return library.predictions(self._booster, data)

    def scored(self) -> Scored | None:
        _, data = self._validation_set()
        labels = data.get_label()
        if not labels.size or data is self._given.validation:
            return None
        weights, ends, settings = data.get_weight(), data.get_uint_info("group_ptr"), self.settings()
        is_exponential = settings.get("ndcg_exp_gain", 1.0) == 1.0
        return Scored(
            labels,
            weights if weights.size else None,
            np.diff(ends) if len(ends) > 1 else None,
            _numbers(settings.get("quantile_alpha")),
            **({} if is_exponential else {"gain": np.asarray}),
        )

    def evaluation_name(self) -> str | None:
        return self._validation_set()[0]

    def _validation_set(self) -> tuple[str, Any]:
        """Return the last set that is not the training data: the one that early stopping uses."""
        if self._given.validation is not None:
            return "validation", self._given.validation
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


def _walk(node: JsonObject, tree: int, depth: int, table: TreeTable) -> None:
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
        categories=condition if isinstance(condition, list) else (),
        gain=node.get("gain"),
        cover=node.get("cover"),
    )
    for child in node["children"]:
        _walk(child, tree, depth + 1, table)


# --- hyperparameters -----------------------------------------------------------------------------------------

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


def _collect(node: JsonObject, settings: dict[str, float | str], *, is_setting: bool = False) -> None:
    for key, value in node.items():
        if isinstance(value, dict):
            _collect(value, settings, is_setting=is_setting or key in _SECTIONS)
        elif isinstance(value, str) and is_setting and key not in _NO_SETTINGS:
            settings[key] = _number(value)


def _numbers(setting: float | str | None) -> tuple[float, ...]:
    """Return the numbers of a setting that is one number, or a list of several in brackets."""
    if isinstance(setting, str):
        return tuple(float(part) for part in setting.strip("[]").split(",") if part.strip())
    return () if setting is None else (setting,)


def _number(text: str) -> float | str:
    try:
        return float(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return text


# --- XGBoost's C interface -----------------------------------------------------------------------------------

_PREDICTION: Final = json.dumps(
    {"type": 0, "training": False, "iteration_begin": 0, "iteration_end": 0, "strict_shape": False}
).encode()
_FLOAT_BYTES: Final = 4
_Size: Final = ctypes.c_uint64
_Pointer: Final = ctypes.c_void_p


class Library:
    """Two functions of XGBoost's C interface.

    Their results are in the library's own memory until its next call in this thread, so they are copied at once.

    Raises:
        AttributeError: This version of XGBoost has no such functions.
    """

    def __init__(self) -> None:
        self._score, self._predict = core._LIB.XGBoosterFeatureScore, core._LIB.XGBoosterPredictFromDMatrix
        self._check = core._check_call
        self._parameters: dict[str, bytes] = {}

    def importance(self, booster: Any, kind: str, indices: dict[bytes, int]) -> Floats:
        """Return the importance of each feature of boosted trees.

        Shape:
            result: ``(features,)``; 0 for a feature that no tree uses.
        Args:
            kind: ``weight``, ``total_gain`` …
            indices: Index of each feature, by its name.
        """
        if kind not in self._parameters:
            self._parameters[kind] = json.dumps({"importance_type": kind, "feature_map": ""}).encode()
        count, dimensions = _Size(), _Size()
        names, shape, scores = ctypes.POINTER(ctypes.c_char_p)(), _Pointer(), _Pointer()
        self._check(
            self._score(
                booster.handle,
                self._parameters[kind],
                ctypes.byref(count),
                ctypes.byref(names),
                ctypes.byref(dimensions),
                ctypes.byref(shape),
                ctypes.byref(scores),
            )
        )
        importances = np.zeros(len(indices), np.float64)
        size = count.value
        if size:
            importances[[indices[name] for name in names[:size]]] = _floats(scores, size)
        return importances

    def predictions(self, booster: Any, data: Any) -> Array:
        """Return the predictions of all trees for some samples.

        Shape:
            result: ``(samples,)`` or ``(samples, classes)``.
        """
        dimensions, shape, values = _Size(), _Pointer(), _Pointer()
        self._check(
            self._predict(
                booster.handle,
                data.handle,
                _PREDICTION,
                ctypes.byref(shape),
                ctypes.byref(dimensions),
                ctypes.byref(values),
            )
        )
        sizes = (_Size * dimensions.value).from_address(shape.value or 0)[:] if dimensions.value else ()
        return _floats(values, int(np.prod(sizes, dtype=np.int64))).reshape(sizes)


def _floats(address: ctypes.c_void_p, count: int) -> Array:
    return np.frombuffer(ctypes.string_at(address, _FLOAT_BYTES * count), np.float32)
