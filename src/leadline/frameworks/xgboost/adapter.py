"""Adapter for XGBoost: ``xgboost.train``, ``xgboost.cv`` and the scikit-learn estimators that call them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import Any

import xgboost
from xgboost.callback import CallbackContainer

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.boosting.adapter import BoostingAdapter
from leadline.frameworks.boosting.patches import MethodPatches
from leadline.frameworks.boosting.rounds import Rounds
from leadline.frameworks.boosting.scores import dataset_collection, is_loss
from leadline.frameworks.scores import Score, Scores
from leadline.frameworks.xgboost.booster import XGBoostBooster
from leadline.frameworks.xgboost.configuration import booster_of, settings_of
from leadline.training.guard import Guard


class XGBoostAdapter(BoostingAdapter):
    """See ``leadline.frameworks.adapter.Adapter``.

    Every training uses a callback container, however ``train`` was imported: its methods are patched while the adapter
    is installed. The user's list of callbacks is left unchanged; the callbacks run before a round ends.
    """

    name = "xgboost"

    def __init__(self, warn: Callable[[str], None]) -> None:
        super().__init__(warn, lambda owner: settings_of(booster_of(owner)))

    def version(self) -> str:
        return str(xgboost.__version__)

    def knows(self, thing: object) -> bool:
        return isinstance(thing, (xgboost.Booster, xgboost.training._PackedBooster)) or _is_estimator(thing)

    def install(self, callbacks: StepCallbacks, guard: Guard) -> None:
        self.start(callbacks, guard, _make_patches)


def _make_patches(rounds: Rounds) -> tuple[MethodPatches, ...]:
    container = {
        "before_training": partial(_before_training, rounds),
        "before_iteration": partial(_before_round, rounds),
        "after_iteration": partial(_after_round, rounds),
        "after_training": partial(_after_training, rounds),
    }
    booster = {"update": partial(_update, rounds), "eval_set": partial(_eval_set, rounds)}
    return MethodPatches(CallbackContainer, container), MethodPatches(xgboost.Booster, booster)


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
    names: dict[object, Scores] = {}

    def after_iteration(self: Any, model: Any, epoch: int, dtrain: Any, evals: Any) -> Any:
        rounds.end_update(model)
        result = original(self, model, epoch, dtrain, evals)
        is_single = dtrain is not None and not self.is_cv
        booster = XGBoostBooster(model, dtrain, evals or ()) if is_single else None
        rounds.end_round(
            model,
            booster,
            lambda: _scores(self, dtrain, evals or (), names),
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
        rounds.end_round(self, XGBoostBooster(self, dtrain, ()), _no_scores)
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


def _no_scores() -> tuple[Scores, Sequence[float]]:
    return (), ()


def _scores(
    container: Any, dtrain: Any, evals: Sequence[tuple[Any, str]], names: dict[object, Scores]
) -> tuple[Scores, Sequence[float]]:
    """Return the latest value of every evaluation set and metric; for folds the mean and standard deviation.

    Args:
        names: Cache of the scores' names.
    """
    history = container.history
    values = [series[-1] for metrics in history.values() for series in metrics.values()]
    is_cross_validation = bool(values) and isinstance(values[0], tuple)
    training = tuple(name for data, name in evals if data is dtrain)
    key = (is_cross_validation, training, *((name, *metrics) for name, metrics in history.items()))
    if key not in names:
        entries = [(name, metric, name in training) for name, metrics in history.items() for metric in metrics]
        names[key] = tuple(
            score for entry in entries for score in _named(*entry, is_cross_validation=is_cross_validation)
        )
    return names[key], [float(number) for value in values for number in value] if is_cross_validation else values


def _named(name: str, metric: str, is_training_data: bool, *, is_cross_validation: bool) -> tuple[Score, ...]:
    marks, full_name = (dataset_collection(name, is_training_data=is_training_data),), f"{name}-{metric}"
    if is_cross_validation:
        return Score(f"{full_name}-mean", is_loss(metric), marks), Score(f"{full_name}-std", False, marks)
    return (Score(full_name, is_loss(metric), marks),)
