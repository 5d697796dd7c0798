"""The training of SageMaker's XGBoost in algorithm mode."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from typing import Any, Final

import xgboost

from leadline.serve.algorithms import checkpoints, job
from leadline.serve.algorithms.classification import MAXIMIZED, custom_metrics
from leadline.serve.algorithms.data import ChannelData
from leadline.serve.algorithms.errors import UserError
from leadline.serve.algorithms.xgboost_hyperparameters import NOT_USED, library_parameters, xgboost_hyperparameters

MODEL: Final = "xgboost-model"
_PLACE: Final = re.compile(r"^(?:\[\d+:\d+:\d+\] )?\S+\.\w+:\d+: ")
"""Where in XGBoost's sources an error is."""
_OF_USER: Final = (
    *("label must be in", "Label must be in", "label must be non", "label must be", "feature_names mismatch"),
    *("preds.size()", "the dataset only contains pos or neg samples", "base_score must be in", "Invalid Input"),
    *("Must have at least 1 validation dataset", "Number of columns in data must equal", "num_class"),
)
"""What XGBoost's errors say of the data and the hyperparameters of a job."""


def train() -> None:
    """Train on the channels of the job, and write the model.

    Raises:
        UserError: A hyperparameter or the data is to be corrected.
    """
    job.say("Running XGBoost Sagemaker in algorithm mode")
    values = xgboost_hyperparameters(job.hyperparameters())
    train_samples, validation_samples = job.channels(has_weights=values.get("csv_weights") == 1)
    data = _matrix(train_samples)
    job.say(f"Train matrix has {data.num_row()} rows and {data.num_col()} columns")
    evals = [(data, job.TRAIN)]
    if validation_samples is not None:
        validation = _matrix(validation_samples)
        job.say(f"Validation matrix has {validation.num_row()} rows")
        evals.append((validation, job.VALIDATION))
    ignored = [name for name in NOT_USED if name in values]
    if ignored:
        job.say(f"XGBoost {xgboost.__version__} has no {', '.join(ignored)}: not used")
    _boost(values, evals)


def _boost(values: Mapping[str, Any], evals: list[tuple[Any, str]]) -> None:
    folder, begun, first = job.checkpoint_folder(), None, 0
    if folder is not None:
        begun, first = checkpoints.latest(folder)
    if begun is not None:
        job.say(f"Checkpoint loaded from {begun}")
        job.say(f"Resuming from iteration {first}")
    model_path = os.path.join(job.model_folder(), MODEL)
    parameters = library_parameters(values)
    warnings.filterwarnings("ignore", module=r"xgboost\.")
    try:
        booster = xgboost.train(
            parameters,
            evals[0][0],
            num_boost_round=max(0, values["num_round"] - first),
            evals=evals,
            custom_metric=custom_metrics(values.get("eval_metric", [])),
            callbacks=list(_callbacks(values, evals, first=first, folder=folder, model_path=model_path)),
            xgb_model=begun,
            verbose_eval=False,
        )
    except (xgboost.core.XGBoostError, ValueError) as error:
        reason = _reason(str(error))
        if any(part in reason for part in _OF_USER):
            raise UserError(reason) from None
        raise RuntimeError(f"XGB train call failed with exception: {reason}") from error
    checkpoints.save(booster, model_path)


def _callbacks(
    values: Mapping[str, Any], evals: list[tuple[Any, str]], *, first: int, folder: str | None, model_path: str
) -> Any:
    yield _Report(first)
    if folder is not None:
        yield checkpoints.SaveCheckpoint(folder, first)
    if values.get("save_model_on_termination") == "true":
        yield _SaveModel(model_path)
    if job.has_debugger():
        from leadline.compat.smdebug.xgboost import Hook

        hook = Hook.create_from_json_file()
        hook.hyperparameters, hook.train_data = dict(values), evals[0][0]
        if len(evals) > 1:
            hook.validation_data = evals[1][0]
        yield hook
    if "early_stopping_rounds" in values:
        metric = values.get("eval_metric", [None])[-1]
        yield xgboost.callback.EarlyStopping(
            values["early_stopping_rounds"],
            metric_name=metric,
            data_name=evals[-1][1],
            maximize=None if metric is None else metric.partition("@")[0] in MAXIMIZED,
            save_best=True,
        )


def _matrix(samples: ChannelData) -> Any:
    try:
        return xgboost.DMatrix(samples.features, label=samples.labels, weight=samples.weights)
    except (xgboost.core.XGBoostError, ValueError) as error:
        raise UserError(_reason(str(error))) from None


def _reason(text: str) -> str:
    """Return the error of XGBoost in one line, without its stack."""
    lines = [line.strip() for line in text.partition("Stack trace")[0].splitlines() if line.strip()]
    return _PLACE.sub("", " ".join(lines))


class _Report(xgboost.callback.TrainingCallback):  # type: ignore[misc] # xgboost has no types here
    """Writes the metrics of each round as the log of a container shows them, in which a tab is ``#011``."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self._first = first

    def after_iteration(self, model: Any, epoch: int, evals_log: Mapping[str, Mapping[str, Any]]) -> bool:
        """Write the metrics of the round."""
        cells = [f"{data}-{name}:{values[-1]:.5f}" for data, log in evals_log.items() for name, values in log.items()]
        job.say("#011".join((f"[{self._first + epoch}]", *cells)))
        return False


class _SaveModel(xgboost.callback.TrainingCallback):  # type: ignore[misc] # xgboost has no types here
    """Saves the model of each round, which is uploaded if the training is ended."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Save the model."""
        checkpoints.save(model, self._path)
        return False
