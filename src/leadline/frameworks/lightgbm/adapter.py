"""The LightGBM adapter: follows ``lightgbm.train``, ``lightgbm.cv`` and the scikit-learn estimators that call them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from threading import get_ident
from types import FrameType
from typing import Any

import lightgbm
from lightgbm.engine import CVBooster

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.boosting.adapter import BoostingAdapter
from leadline.frameworks.boosting.patches import MethodPatches
from leadline.frameworks.boosting.rounds import Rounds
from leadline.frameworks.boosting.scores import mark_of
from leadline.frameworks.lightgbm.booster import LightGBMBooster
from leadline.frameworks.lightgbm.configuration import settings_of
from leadline.frameworks.scores import Score, Scores
from leadline.training.guard import Guard


class LightGBMAdapter(BoostingAdapter):
    """See ``leadline.frameworks.adapter.Adapter``.

    A round is told from what every training loop asks of its booster: to update, then to evaluate. Methods of the
    class are replaced while we watch, so that it does not matter how ``train`` was imported; the callbacks are left
    as they are. In a loop of the script's own a round ends with its update, and its scores are nobody's.
    """

    name = "lightgbm"

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(tell, settings_of)

    def version(self) -> str:
        return str(lightgbm.__version__)

    def knows(self, thing: object) -> bool:
        return isinstance(thing, (lightgbm.Booster, CVBooster)) or hasattr(type(thing), "booster_")

    def install(self, probes: StepCallbacks, guard: Guard) -> None:
        self.start(probes, guard, _methods)


def _methods(rounds: Rounds) -> tuple[MethodPatches, ...]:
    loop = _Loop(rounds)
    of_one = {
        "update": loop.wrap_update,
        "eval_train": loop.wrap_eval_train,
        "eval_valid": loop.wrap_eval_valid,
        "model_from_string": loop.wrap_model_from_string,
    }
    of_folds = {"update": loop.wrap_update_of_folds, "eval_valid": loop.wrap_eval_valid_of_folds}
    redirected = {name: _redirect(name) for name in of_folds if name not in vars(CVBooster)}
    return MethodPatches(lightgbm.Booster, of_one), MethodPatches(CVBooster, of_folds, redirected)


def _redirect(name: str) -> Callable[..., Any]:
    """What folds do with a method that they do not have: each of the boosters does it."""

    def redirected(folds: Any, *args: Any, **kwargs: Any) -> Any:
        return folds.__getattr__(name)(*args, **kwargs)

    return redirected


class _Loop:
    """What the methods of boosters tell of the loop that calls them."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._folds_thread: int | None = None
        """The thread in which several boosters are updated as one."""
        self._scored: list[Any] = []
        """What was scored of the training data since the trees of the round were grown, as the framework gives it."""
        self._names: dict[object, Scores] = {}

    # --- one booster --------------------------------------------------------------------------------------

    def wrap_update(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def update(booster: Any, *args: Any, **kwargs: Any) -> Any:
            if self._folds_thread == get_ident():
                return original(booster, *args, **kwargs)
            frame = sys._getframe(1)
            is_evaluated = _is_engines(frame) and frame.f_locals.get("valid_sets") is not None
            is_last = not is_evaluated and _is_last(frame)
            del frame
            self._scored = []
            self._rounds.take(booster)
            self._rounds.begin_update(booster)
            found = original(booster, *args, **kwargs)
            self._rounds.end_update(booster)
            if not is_evaluated:
                self._rounds.end_round(booster, LightGBMBooster(booster), lambda: ((), ()), is_last=is_last)
            return found

        return update

    def wrap_eval_train(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def eval_train(booster: Any, feval: Any = None) -> Any:
            found = original(booster, feval)
            if self._is_of_loop(sys._getframe(1)):
                self._scored = found
            return found

        return eval_train

    def wrap_eval_valid(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def eval_valid(booster: Any, feval: Any = None) -> Any:
            found = original(booster, feval)
            frame = sys._getframe(1)
            if self._is_of_loop(frame):
                scored, self._scored = [*self._scored, *found], []
                self._rounds.end_scoring(booster)
                self._rounds.end_round(
                    booster, LightGBMBooster(booster), lambda: self._scores(scored, booster), is_last=_is_last(frame)
                )
            return found

        return eval_valid

    def wrap_model_from_string(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def model_from_string(booster: Any, model_str: str) -> Any:
            self._rounds.end(booster)  # what training ends with: the booster becomes one that only predicts
            return original(booster, model_str)

        return model_from_string

    def _scores(self, scored: Sequence[Any], booster: Any) -> tuple[Scores, Sequence[float]]:
        training = booster._train_data_name
        key = (training, *((name, metric, is_higher_better) for name, metric, _, is_higher_better, *_ in scored))
        if key not in self._names:
            self._names[key] = tuple(
                _score(name, metric, is_higher_better, training=training)
                for name, metric, _, is_higher_better, *_ in scored
            )
        return self._names[key], [float(each[2]) for each in scored]

    def _is_of_loop(self, caller: FrameType) -> bool:
        return self._folds_thread != get_ident() and _is_engines(caller)

    # --- folds --------------------------------------------------------------------------------------------

    def wrap_update_of_folds(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def update(folds: Any, *args: Any, **kwargs: Any) -> Any:
            self._rounds.take(folds)
            self._rounds.begin_update(folds)
            before, self._folds_thread = self._folds_thread, get_ident()
            try:
                return original(folds, *args, **kwargs)
            finally:
                self._folds_thread = before
                self._rounds.end_update(folds)

        return update

    def wrap_eval_valid_of_folds(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def eval_valid(folds: Any, *args: Any, **kwargs: Any) -> Any:
            before, self._folds_thread = self._folds_thread, get_ident()
            try:
                found = original(folds, *args, **kwargs)
            finally:
                self._folds_thread = before
            if _is_engines(sys._getframe(1)):
                self._rounds.end_scoring(folds)
                self._rounds.end_round(folds, None, lambda: _scores_of_folds(found))
            return found

        return eval_valid


def _is_engines(frame: FrameType) -> bool:
    """Whether it is the loop of ``train`` or ``cv`` themselves."""
    return frame.f_globals.get("__name__") == "lightgbm.engine" and frame.f_code.co_name in ("train", "cv")


def _is_last(frame: FrameType) -> bool:
    """Whether ``train`` has as many rounds as it was asked for; whether a callback ends it, nobody knows yet."""
    known = frame.f_locals
    if not _is_engines(frame) or not {"i", "init_iteration", "num_boost_round"} <= known.keys():
        return False
    return bool(known["i"] + 1 == known["init_iteration"] + known["num_boost_round"])


def _score(name: str, metric: str, is_higher_better: bool, *, training: str, tail: str = "") -> Score:
    marks = (mark_of(name, is_training_data=name == training),)
    return Score(f"{name}-{metric}{tail}", not is_higher_better and tail != "-std", marks)


def _scores_of_folds(results: Any) -> tuple[Scores, Sequence[float]]:
    """Means and spreads over the folds, as ``lightgbm.cv`` gives them."""
    found: dict[tuple[str, str, bool], list[float]] = {}
    for fold in results:
        for each in fold:
            name, metric, value, is_higher_better = tuple(each)[:4]
            found.setdefault((name, metric, is_higher_better), []).append(float(value))
    scores, numbers = [], []
    for (name, metric, is_higher_better), values in found.items():
        mean = sum(values) / len(values)
        spread = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
        for tail, number in (("-mean", mean), ("-std", spread)):
            scores.append(_score(name, metric, is_higher_better, training="train", tail=tail))
            numbers.append(number)
    return tuple(scores), numbers
