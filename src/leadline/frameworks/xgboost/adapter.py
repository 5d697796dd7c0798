"""The XGBoost adapter: follows ``xgboost.train``, ``xgboost.cv`` and the scikit-learn estimators that call them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import xgboost
from xgboost.callback import CallbackContainer

from leadline.frameworks.boosting.adapter import BoostingAdapter
from leadline.frameworks.boosting.booster import Score
from leadline.frameworks.boosting.methods import Methods
from leadline.frameworks.boosting.rounds import Rounds
from leadline.frameworks.boosting.scores import is_loss, mark_of
from leadline.frameworks.xgboost.booster import XGBoostBooster
from leadline.frameworks.xgboost.configuration import booster_of, settings_of
from leadline.probes.adapter import Probes
from leadline.probes.guard import Guard


class XGBoostAdapter(BoostingAdapter):
    """See ``leadline.probes.adapter.Adapter``.

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

    def install(self, probes: Probes, guard: Guard) -> None:
        self.start(probes, guard, _methods)


def _methods(rounds: Rounds) -> tuple[Methods, ...]:
    of_callbacks = {
        "before_training": partial(_before_training, rounds), "before_iteration": partial(_before_round, rounds),
        "after_iteration": partial(_after_round, rounds), "after_training": partial(_after_training, rounds),
    }  # fmt: skip
    return Methods(CallbackContainer, of_callbacks), Methods(xgboost.Booster, {"update": partial(_update, rounds)})


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
    def after_iteration(self: Any, model: Any, epoch: int, dtrain: Any, evals: Any) -> Any:
        rounds.end_update(model)
        found = original(self, model, epoch, dtrain, evals)
        booster = XGBoostBooster(model, dtrain, evals or ()) if dtrain is not None and not self.is_cv else None
        rounds.end_round(model, booster, lambda: _scores(self, dtrain, evals or ()))
        return found

    return after_iteration


def _update(rounds: Rounds, original: Callable[..., Any]) -> Callable[..., Any]:
    """Rounds of a loop that the script has written itself: they end with the update, and nobody knows their scores."""

    def update(self: Any, dtrain: Any, *args: Any, **kwargs: Any) -> Any:
        if rounds.is_within():
            return original(self, dtrain, *args, **kwargs)
        rounds.take(self)
        rounds.begin_update(self)
        found = original(self, dtrain, *args, **kwargs)
        rounds.end_update(self)
        rounds.end_round(self, XGBoostBooster(self, dtrain, ()), list)
        return found

    return update


def _after_training(rounds: Rounds, original: Callable[..., Any]) -> Callable[..., Any]:
    def after_training(self: Any, model: Any) -> Any:
        rounds.end(model)
        return original(self, model)

    return after_training


def _scores(container: Any, dtrain: Any, evals: Sequence[tuple[Any, str]]) -> list[Score]:
    """The latest of every evaluation set and metric; of folds the mean and the spread."""
    is_training_data = {name: data is dtrain for data, name in evals}
    found = []
    for name, metrics in container.history.items():
        marks = (mark_of(name, is_training_data=is_training_data.get(name, False)),)
        for metric, values in metrics.items():
            value, whole = values[-1], f"{name}-{metric}"
            if isinstance(value, tuple):
                found.append(Score(f"{whole}-mean", float(value[0]), is_loss(metric), marks))
                found.append(Score(f"{whole}-std", float(value[1]), False, marks))
            else:
                found.append(Score(whole, float(value), is_loss(metric), marks))
    return found
