"""The hyperparameters of SageMaker's XGBoost, versions 0.90 to 1.7."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from leadline.records.json_object import JsonObject
from leadline.serve.algorithms.classification import CUSTOM_METRICS
from leadline.serve.algorithms.errors import UserError
from leadline.serve.algorithms.hyperparameters import Choice, Kind, Nested, Number, Words, read_hyperparameters

OWN: Final = frozenset({"num_round", "csv_weights", "early_stopping_rounds", "save_model_on_termination"})
"""Those that the library itself does not know."""
NOT_USED: Final = (
    *("silent", "dsplit", "sketch_eps", "predictor", "single_precision_histogram", "deterministic_histogram"),
    *("prob_buffer_row", "lambda_bias", "use_dask_gpu_training"),
)
"""Those that newer versions of the library do not have; they change speed, or what is printed, or are defaults."""
_METRICS: Final = (
    *("rmse", "rmsle", "mae", "mape", "mphe", "logloss", "error", "merror", "mlogloss", "auc", "aucpr", "ndcg", "map"),
    *("poisson-nloglik", "gamma-nloglik", "cox-nloglik", "gamma-deviance", "tweedie-nloglik", "aft-nloglik"),
    *("interval-regression-accuracy", "pre", "quantile"),
)
_OBJECTIVES: Final = (
    *("reg:squarederror", "reg:linear", "reg:squaredlogerror", "reg:logistic", "reg:pseudohubererror", "reg:gamma"),
    *("reg:absoluteerror", "reg:tweedie", "binary:logistic", "binary:logitraw", "binary:hinge", "count:poisson"),
    *("survival:cox", "survival:aft", "multi:softmax", "multi:softprob", "rank:pairwise", "rank:ndcg", "rank:map"),
)
_UPDATERS: Final = (
    *("grow_colmaker", "distcol", "grow_histmaker", "grow_local_histmaker", "grow_quantile_histmaker", "grow_skmaker"),
    *("sync", "refresh", "prune", "shotgun", "coord_descent"),
)
_SHARE: Final = Number(0, 1)
_PART: Final = Number(0, 1, without_lowest=True)
_FLAG: Final = Number(0, 1, is_integer=True)
_WORD_FLAG: Final = Choice(("true", "false"))
_POSITIVE: Final = Number(0)
_COUNT: Final = Number(1, is_integer=True)
_SIZE: Final = Number(0, is_integer=True)
KNOWN: Final[Mapping[str, Kind]] = {
    "num_round": _COUNT,
    "csv_weights": _FLAG,
    "early_stopping_rounds": _COUNT,
    "save_model_on_termination": _WORD_FLAG,
    "booster": Choice(("gbtree", "gblinear", "dart")),
    "verbosity": Number(0, 3, is_integer=True),
    "silent": _FLAG,
    "nthread": _COUNT,
    "eta": _SHARE,
    "gamma": _POSITIVE,
    "max_depth": _SIZE,
    "min_child_weight": _POSITIVE,
    "max_delta_step": _POSITIVE,
    "subsample": _PART,
    "colsample_bytree": _PART,
    "colsample_bylevel": _PART,
    "colsample_bynode": _PART,
    "lambda": _POSITIVE,
    "alpha": _POSITIVE,
    "tree_method": Choice(("auto", "exact", "approx", "hist", "gpu_hist")),
    "sketch_eps": Number(0, 1, without_lowest=True, without_highest=True),
    "scale_pos_weight": Number(0, without_lowest=True),
    "updater": Words(_UPDATERS),
    "dsplit": Choice(("row", "col")),
    "refresh_leaf": _FLAG,
    "process_type": Choice(("default", "update")),
    "grow_policy": Choice(("depthwise", "lossguide")),
    "max_leaves": _SIZE,
    "max_bin": _SIZE,
    "predictor": Choice(("auto", "cpu_predictor", "gpu_predictor")),
    "monotone_constraints": Nested(-1, 1),
    "interaction_constraints": Nested(0),
    "sample_type": Choice(("uniform", "weighted")),
    "normalize_type": Choice(("tree", "forest")),
    "rate_drop": _SHARE,
    "one_drop": _FLAG,
    "skip_drop": _SHARE,
    "lambda_bias": _SHARE,
    "tweedie_variance_power": Number(1, 2, without_lowest=True, without_highest=True),
    "objective": Choice(_OBJECTIVES),
    "num_class": Number(2, is_integer=True),
    "base_score": _POSITIVE,
    "eval_metric": Words((*_METRICS, *CUSTOM_METRICS), ("error", "ndcg", "map", "tweedie-nloglik")),
    "seed": Number(-(2**31), 2**31 - 1, is_integer=True, without_lowest=True, without_highest=True),
    "num_parallel_tree": _COUNT,
    "aft_loss_distribution": Choice(("normal", "logistic", "extreme")),
    "aft_loss_distribution_scale": _POSITIVE,
    "single_precision_histogram": _WORD_FLAG,
    "deterministic_histogram": _WORD_FLAG,
    "sampling_method": Choice(("uniform", "gradient_based")),
    "prob_buffer_row": Number(1, without_lowest=True),
    "use_dask_gpu_training": Choice(("false",)),
}
_ALIASES: Final = {"learning_rate": "eta", "min_split_loss": "gamma", "reg_lambda": "lambda", "reg_alpha": "alpha"}


def xgboost_hyperparameters(given: Mapping[str, str]) -> JsonObject:
    """Return the values of the hyperparameters of a job.

    Raises:
        UserError: One is invalid, or does not fit another.
    """
    values = read_hyperparameters(given, KNOWN, required=("num_round",), aliases=_ALIASES)
    objective, metrics = values.get("objective", ""), values.get("eval_metric", [])
    if objective.startswith("multi:") and "num_class" not in values:
        raise UserError("Require input for parameter 'num_class' for multi-classification")
    if "num_class" in values and not objective.startswith("multi:"):
        raise UserError("Do not need to setup parameter 'num_class' for learning task other than multi-classification.")
    if "auc" in metrics and objective and not objective.startswith(("binary:", "rank:", "multi:", "reg:logistic")):
        raise UserError("Metric 'auc' can only be applied for classification and ranking problems.")
    if "aft-nloglik" in metrics and objective != "survival:aft":
        raise UserError("Metric 'aft-nloglik' can only be applied for 'survival:aft' objective.")
    for name, methods in (
        ("monotone_constraints", ("exact", "hist")),
        ("interaction_constraints", ("exact", "hist", "approx")),
    ):
        if name in values and values.get("tree_method") not in methods:
            raise UserError(
                f"{name} can be used only when the tree_method parameter is set to one of {', '.join(methods)}."
            )
    _check_updaters(values)
    return values


def _check_updaters(values: Mapping[str, Any]) -> None:
    updaters = values.get("updater", [])
    linear = ("shotgun", "coord_descent")
    if not updaters:
        return
    if values.get("booster") == "gblinear":
        if len(updaters) != 1 or updaters[0] not in linear:
            raise UserError(f"Linear updater should be one of these options: {', '.join(linear)}.")
    elif values.get("process_type") == "update":
        if not {"refresh", "prune"}.issuperset(updaters):
            raise UserError("process_type 'update' can only be used with updater 'refresh' and 'prune'")
    elif len([updater for updater in updaters if updater.startswith(("grow_", "distcol"))]) > 1:
        raise UserError(f"Only one tree grow plugin can be selected, not {', '.join(updaters)}")


def library_parameters(values: Mapping[str, Any]) -> JsonObject:
    """Return the parameters of the library: without those that it does not have, and by its present names."""
    parameters = {name: value for name, value in values.items() if name not in OWN and name not in NOT_USED}
    if "updater" in parameters:
        parameters["updater"] = ",".join(parameters["updater"])
    if parameters.get("tree_method") == "gpu_hist":
        parameters |= {"tree_method": "hist", "device": "cuda"}
    if parameters.get("objective") == "reg:linear":
        parameters["objective"] = "reg:squarederror"
    metrics = [metric for metric in values.get("eval_metric", ()) if metric not in CUSTOM_METRICS]
    parameters.pop("eval_metric", None)
    return parameters | ({"eval_metric": metrics} if metrics else {})
