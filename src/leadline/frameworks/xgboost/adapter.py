"""Adapter for XGBoost: ``xgboost.train``, ``xgboost.cv`` and the scikit-learn estimators that call them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import Any

import xgboost
from xgboost.callback import CallbackContainer, EarlyStopping

from leadline.frameworks.adapter import Score
from leadline.frameworks.boosting.adapter import BoostingAdapter, dataset_collection, is_loss
from leadline.frameworks.boosting.rounds import Rounds
from leadline.frameworks.xgboost.booster import XGBoostBooster, booster_of, settings_of
from leadline.records.names import WATCHED_TRAINING_SET


class XGBoostAdapter(BoostingAdapter):
    """See ``leadline.frameworks.adapter.Adapter``.

    Every training uses a callback container, however ``train`` was imported: its methods are patched while the adapter
    is installed. The user's list of callbacks is left unchanged; the callbacks run before a round ends. One with an
    attribute ``captured_data``, a ``GivenData``, names the data whose SHAP values and predictions are captured.
    """

    name = "xgboost"

    def __init__(self, warn: Callable[[str], None]) -> None:
        super().__init__(warn, lambda owner: settings_of(booster_of(owner)))

    def version(self) -> str:
        return str(xgboost.__version__)

    def knows(self, thing: object) -> bool:
        return isinstance(thing, (xgboost.Booster, xgboost.training._PackedBooster)) or _is_estimator(thing)

    def rounds_of(self, owner: Any) -> int | None:
        return int(owner.num_boosted_rounds()) if isinstance(owner, xgboost.Booster) else None

    def replace_methods(self, rounds: Rounds, replace: Callable[..., None]) -> None:
        replace(CallbackContainer, "before_training", partial(_before_training, rounds))
        replace(CallbackContainer, "before_iteration", partial(_before_round, rounds))
        replace(CallbackContainer, "after_iteration", partial(_after_round, rounds))
        replace(CallbackContainer, "after_training", partial(_after_training, rounds))
        replace(xgboost.Booster, "update", partial(_update, rounds))
        replace(xgboost.Booster, "eval_set", partial(_eval_set, rounds))


def _is_estimator(thing: object) -> bool:
    return hasattr(type(thing), "get_xgb_params")


def _before_training(rounds: Rounds, original: Callable[..., Any]) -> Callable[..., Any]:
    def before_training(self: Any, model: Any) -> Any:
        result = original(self, model)
        rounds.begin(result if result is not None else model)
        return result

    return before_training


def _before_round(rounds: Rounds, original: Callable[..., Any]) -> Callable[..., Any]:
    def before_iteration(self: Any, model: Any, *rest: Any, **named: Any) -> Any:
        result = original(self, model, *rest, **named)
        rounds.begin_update(model)
        return result

    return before_iteration


def _after_round(rounds: Rounds, original: Callable[..., Any]) -> Callable[..., Any]:
    def after_iteration(self: Any, model: Any, epoch: int, dtrain: Any, evals: Any) -> Any:
        rounds.end_update(model)
        result = original(self, model, epoch, dtrain, evals)
        is_single = dtrain is not None and not self.is_cv
        given = next(
            (callback.captured_data for callback in self.callbacks if hasattr(callback, "captured_data")), None
        )
        booster = XGBoostBooster(model, dtrain, evals or (), given) if is_single else None
        rounds.end_round(
            model,
            booster,
            lambda: _scores(self, dtrain, evals or ()),
            read_checks=lambda: _watched(self.callbacks, dtrain, evals or ()),
            is_last=bool(result) or _is_last(sys._getframe(1), epoch),
        )
        return result

    return after_iteration


def _is_last(loop: FrameType, epoch: int) -> bool:
    """Return whether ``train`` has reached the requested number of rounds."""
    if loop.f_code.co_name != "train" or loop.f_globals.get("__name__") != "xgboost.training":
        return False
    return bool(epoch + 1 == loop.f_locals.get("num_boost_round"))


def _update(rounds: Rounds, original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``update`` for training loops written by the script: a round ends with its update and has no scores."""

    def update(self: Any, dtrain: Any, *args: Any, **kwargs: Any) -> Any:
        if rounds.is_within():
            return original(self, dtrain, *args, **kwargs)
        rounds.begin_unannounced(self)
        rounds.begin_update(self)
        result = original(self, dtrain, *args, **kwargs)
        rounds.end_update(self)
        rounds.end_round(self, XGBoostBooster(self, dtrain, ()), list)
        return result

    return update


def _eval_set(rounds: Rounds, original: Callable[..., Any]) -> Callable[..., Any]:
    def eval_set(self: Any, evals: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, evals, *args, **kwargs)
        if evals:
            rounds.end_scoring(self)
        return result

    return eval_set


def _after_training(rounds: Rounds, original: Callable[..., Any]) -> Callable[..., Any]:
    def after_training(self: Any, model: Any) -> Any:
        rounds.end(model)
        return original(self, model)

    return after_training


def _watched(callbacks: Sequence[Any], dtrain: Any, evals: Sequence[tuple[Any, str]]) -> Mapping[str, float]:
    """Return the check of the training data if all early stopping watches it, and there is another set; else none."""
    names = [callback.data or evals[-1][1] for callback in callbacks if isinstance(callback, EarlyStopping) and evals]
    watched = [data for data, name in evals if name in names]
    is_only_training = bool(watched) and all(data is dtrain for data in watched)
    has_other = any(data is not dtrain for data, _ in evals)
    return {f"{names[0]}/{WATCHED_TRAINING_SET}": 1.0} if is_only_training and has_other else {}


def _scores(container: Any, dtrain: Any, evals: Sequence[tuple[Any, str]]) -> list[Score]:
    """Return the latest value of every evaluation set and metric; for folds the mean and standard deviation."""
    training = {name for data, name in evals if data is dtrain}
    return [
        score
        for name, metrics in container.history.items()
        for metric, series in metrics.items()
        for score in _named(name, metric, series[-1], is_training_data=name in training)
    ]


def _named(name: str, metric: str, value: Any, *, is_training_data: bool) -> tuple[Score, ...]:
    marks, full_name = (dataset_collection(name, is_training_data=is_training_data),), f"{name}-{metric}"
    if isinstance(value, tuple):
        mean, deviation = map(float, value)
        mean_score = Score(f"{full_name}-mean", mean, is_loss(metric), marks)
        return mean_score, Score(f"{full_name}-std", deviation, False, marks)
    return (Score(full_name, float(value), is_loss(metric), marks),)
