"""The XGBoost adapter: follows ``xgboost.train``, ``xgboost.cv`` and the scikit-learn estimators that call them."""

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
from leadline.frameworks.boosting.scores import is_loss, mark_of
from leadline.frameworks.scores import Score, Scores
from leadline.frameworks.xgboost.booster import XGBoostBooster
from leadline.frameworks.xgboost.configuration import booster_of, settings_of
from leadline.training.guard import Guard


class XGBoostAdapter(BoostingAdapter):
    """See ``leadline.frameworks.adapter.Adapter``.

    The container of a training's callbacks is where all trainings pass, however they were imported: its methods are
    replaced while we watch. The user's list of callbacks is left as it is; what they do comes before a round ends.
    """

    name = "xgboost"

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(tell, lambda owner: settings_of(booster_of(owner)))

    def version(self) -> str:
        return str(xgboost.__version__)

    def knows(self, thing: object) -> bool:
        return isinstance(thing, (xgboost.Booster, xgboost.training._PackedBooster)) or _is_estimator(thing)

    def install(self, probes: StepCallbacks, guard: Guard) -> None:
        self.start(probes, guard, _methods)


def _methods(rounds: Rounds) -> tuple[MethodPatches, ...]:
    of_callbacks = {
        "before_training": partial(_before_training, rounds),
        "before_iteration": partial(_before_round, rounds),
        "after_iteration": partial(_after_round, rounds),
        "after_training": partial(_after_training, rounds),
    }
    of_boosters = {"update": partial(_update, rounds), "eval_set": partial(_eval_set, rounds)}
    return MethodPatches(CallbackContainer, of_callbacks), MethodPatches(xgboost.Booster, of_boosters)


def _is_estimator(thing: object) -> bool:
    return hasattr(type(thing), "get_xgb_params")


def _before_training(rounds: Rounds, original: Callable[..., Any]) -> Callable[..., Any]:
    def before_training(self: Any, model: Any) -> Any:
        found = original(self, model)
        rounds.begin(found if found is not None else model)
        return found

    return before_training


def _before_round(rounds: Rounds, original: Callable[..., Any]) -> Callable[..., Any]:
    def before_iteration(self: Any, model: Any, *rest: Any, **named: Any) -> Any:
        found = original(self, model, *rest, **named)
        rounds.begin_update(model)
        return found

    return before_iteration


def _after_round(rounds: Rounds, original: Callable[..., Any]) -> Callable[..., Any]:
    names: dict[object, Scores] = {}

    def after_iteration(self: Any, model: Any, epoch: int, dtrain: Any, evals: Any) -> Any:
        rounds.end_update(model)
        found = original(self, model, epoch, dtrain, evals)
        is_one = dtrain is not None and not self.is_cv
        booster = XGBoostBooster(model, dtrain, evals or ()) if is_one else None
        rounds.end_round(
            model,
            booster,
            lambda: _scores(self, dtrain, evals or (), names),
            is_last=bool(found) or _is_last(sys._getframe(1), epoch),
        )
        return found

    return after_iteration


def _is_last(loop: FrameType, epoch: int) -> bool:
    """Whether ``train`` has as many rounds as it was asked for."""
    if loop.f_code.co_name != "train" or loop.f_globals.get("__name__") != "xgboost.training":
        return False
    return bool(epoch + 1 == loop.f_locals.get("num_boost_round"))


def _update(rounds: Rounds, original: Callable[..., Any]) -> Callable[..., Any]:
    """Rounds of a loop that the script has written itself: they end with the update, and nobody knows their scores."""

    def update(self: Any, dtrain: Any, *args: Any, **kwargs: Any) -> Any:
        if rounds.is_within():
            return original(self, dtrain, *args, **kwargs)
        rounds.take(self)
        rounds.begin_update(self)
        found = original(self, dtrain, *args, **kwargs)
        rounds.end_update(self)
        rounds.end_round(self, XGBoostBooster(self, dtrain, ()), _no_scores)
        return found

    return update


def _eval_set(rounds: Rounds, original: Callable[..., Any]) -> Callable[..., Any]:
    def eval_set(self: Any, evals: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(self, evals, *args, **kwargs)
        if evals:
            rounds.end_scoring(self)
        return found

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
    """The latest of every evaluation set and metric; of folds the mean and the spread.

    Args:
        names: What is known of scores already.
    """
    history = container.history
    values = [series[-1] for metrics in history.values() for series in metrics.values()]
    is_of_folds = bool(values) and isinstance(values[0], tuple)
    training = tuple(name for data, name in evals if data is dtrain)
    key = (is_of_folds, training, *((name, *metrics) for name, metrics in history.items()))
    if key not in names:
        each_set = [(name, metric, name in training) for name, metrics in history.items() for metric in metrics]
        names[key] = tuple(score for each in each_set for score in _named(*each, is_of_folds=is_of_folds))
    return names[key], [float(number) for value in values for number in value] if is_of_folds else values


def _named(name: str, metric: str, is_training_data: bool, *, is_of_folds: bool) -> tuple[Score, ...]:
    marks, whole = (mark_of(name, is_training_data=is_training_data),), f"{name}-{metric}"
    if is_of_folds:
        return Score(f"{whole}-mean", is_loss(metric), marks), Score(f"{whole}-std", False, marks)
    return (Score(whole, is_loss(metric), marks),)
