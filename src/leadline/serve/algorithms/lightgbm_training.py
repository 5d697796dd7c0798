"""The training of SageMaker's LightGBM, from its hyperparameters."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import lightgbm

from leadline.serve.algorithms import job
from leadline.serve.algorithms.errors import UserError
from leadline.serve.algorithms.hyperparameters import Choice, Kind, Number, Words, read_hyperparameters

MODEL: Final = "model.txt"
_METRICS: Final = (
    *("auto", "rmse", "l1", "l2", "huber", "fair", "binary_logloss", "binary_error", "auc", "average_precision"),
    *("multi_logloss", "multi_error", "auc_mu", "cross_entropy"),
)
_PART: Final = Number(0, 1, without_lowest=True)
_POSITIVE: Final = Number(0)
_COUNT: Final = Number(1, is_integer=True)
KNOWN: Final[Mapping[str, Kind]] = {
    "num_boost_round": _COUNT,
    "early_stopping_rounds": Number(0, is_integer=True),
    "metric": Words(_METRICS),
    "objective": Choice(("regression", "regression_l1", "huber", "binary", "multiclass")),
    "num_class": Number(2, is_integer=True),
    "learning_rate": _PART,
    "num_leaves": Number(2, 131_072, is_integer=True),
    "feature_fraction": _PART,
    "bagging_fraction": _PART,
    "bagging_freq": Number(0, is_integer=True),
    "max_depth": Number(-1, is_integer=True),
    "min_data_in_leaf": Number(0, is_integer=True),
    "max_delta_step": Number(),
    "lambda_l1": _POSITIVE,
    "lambda_l2": _POSITIVE,
    "boosting": Choice(("gbdt", "dart", "rf")),
    "min_gain_to_split": _POSITIVE,
    "scale_pos_weight": Number(0, without_lowest=True),
    "tree_learner": Choice(("serial", "feature", "data", "voting")),
    "feature_fraction_bynode": _PART,
    "is_unbalance": Choice(("True", "False", "true", "false")),
    "max_bin": Number(2, is_integer=True),
    "tweedie_variance_power": Number(1, 2, without_highest=True),
    "num_threads": Number(0, is_integer=True),
    "verbosity": Number(-1, is_integer=True),
    "seed": Number(is_integer=True),
}
_OWN: Final = ("num_boost_round", "early_stopping_rounds", "metric")


def train() -> None:
    """Train on the channels of the job, and write the model.

    Raises:
        UserError: A hyperparameter or the data is to be corrected.
    """
    values = read_hyperparameters(job.hyperparameters(), KNOWN, required=(), aliases={})
    samples, validation = job.channels()
    data = lightgbm.Dataset(samples.features, samples.labels, weight=samples.weights)
    sets, names = [data], [job.TRAIN]
    if validation is not None:
        sets.append(lightgbm.Dataset(validation.features, validation.labels, reference=data))
        names.append(job.VALIDATION)
    parameters = {name: value for name, value in values.items() if name not in _OWN}
    metrics = [metric for metric in values.get("metric", ()) if metric != "auto"]
    callbacks = [_report]
    if values.get("early_stopping_rounds"):
        callbacks.append(lightgbm.early_stopping(values["early_stopping_rounds"], verbose=False))
    try:
        booster = lightgbm.train(
            parameters | ({"metric": metrics} if metrics else {}),
            data,
            num_boost_round=values.get("num_boost_round", 100),
            valid_sets=sets,
            valid_names=names,
            callbacks=callbacks,
        )
    except lightgbm.basic.LightGBMError as error:
        raise UserError(" ".join(str(error).split())) from None
    booster.save_model(os.path.join(job.model_folder(), MODEL))


def _report(env: Any) -> None:
    cells = [f"{entry[0]}-{entry[1]}:{entry[2]:.5f}" for entry in env.evaluation_result_list]
    job.say("#011".join((f"[{env.iteration}]", *cells)))
