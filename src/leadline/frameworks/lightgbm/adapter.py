"""Adapter for LightGBM: ``lightgbm.train``, ``lightgbm.cv`` and the scikit-learn estimators that call them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from threading import get_ident
from types import FrameType
from typing import Any, Final

import lightgbm
import numpy as np
from lightgbm.engine import CVBooster

from leadline.frameworks.adapter import Score
from leadline.frameworks.boosting.adapter import BoostingAdapter, dataset_collection
from leadline.frameworks.boosting.rounds import Rounds
from leadline.frameworks.lightgbm.booster import LightGBMBooster, settings_of
from leadline.records.names import UNWATCHED_TRAINING_SET

_EARLY_STOPPING: Final = "_EarlyStoppingCallback"


class LightGBMAdapter(BoostingAdapter):
    """See ``leadline.frameworks.adapter.Adapter``.

    A round is recognized by the calls that every training loop makes: update, then evaluate. Methods of the class are
    patched while the adapter is installed, however ``train`` was imported; the callbacks are left unchanged. In a
    training loop written by the script a round ends with its update and has no scores.
    """

    name = "lightgbm"

    def __init__(self, warn: Callable[[str], None]) -> None:
        super().__init__(warn, settings_of)

    def version(self) -> str:
        return str(lightgbm.__version__)

    def knows(self, thing: object) -> bool:
        return isinstance(thing, (lightgbm.Booster, CVBooster)) or hasattr(type(thing), "booster_")

    def rounds_of(self, owner: Any) -> int | None:
        return int(owner.current_iteration()) if isinstance(owner, lightgbm.Booster) else None

    def replace_methods(self, rounds: Rounds, replace: Callable[..., None]) -> None:
        loop = _TrainingLoop(rounds)
        replace(lightgbm.Booster, "update", loop.wrap_update)
        replace(lightgbm.Booster, "eval_train", loop.wrap_eval_train)
        replace(lightgbm.Booster, "eval_valid", loop.wrap_eval_valid)
        replace(lightgbm.Booster, "model_from_string", loop.wrap_model_from_string)
        replace(CVBooster, "update", loop.wrap_update_of_folds, default=_redirect("update"))
        replace(CVBooster, "eval_valid", loop.wrap_eval_valid_of_folds, default=_redirect("eval_valid"))


def _redirect(name: str) -> Callable[..., Any]:
    """Return what ``CVBooster`` does for a method that it does not define: call it on each of its boosters."""

    def redirected(folds: Any, *args: Any, **kwargs: Any) -> Any:
        return folds.__getattr__(name)(*args, **kwargs)

    return redirected


class _TrainingLoop:
    """Reconstruction of the training loop from the booster methods that it calls."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._folds_thread: int | None = None
        """The thread in which several boosters are updated as one."""
        self._scored: list[Any] = []
        """Scores of the training data since the trees of the round were grown, as the framework returns them."""

    # --- one booster --------------------------------------------------------------------------------------

    def wrap_update(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def update(booster: Any, *args: Any, **kwargs: Any) -> Any:
            if self._folds_thread == get_ident():
                return original(booster, *args, **kwargs)
            frame = sys._getframe(1)
            is_evaluated = _is_engine_loop(frame) and frame.f_locals.get("valid_sets") is not None
            is_last = not is_evaluated and _is_last(frame)
            del frame
            self._scored = []
            self._rounds.begin_unannounced(booster)
            self._rounds.begin_update(booster)
            result = original(booster, *args, **kwargs)
            self._rounds.end_update(booster)
            if not is_evaluated:
                self._rounds.end_round(booster, LightGBMBooster(booster), list, is_last=is_last)
            return result

        return update

    def wrap_eval_train(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def eval_train(booster: Any, feval: Any = None) -> Any:
            results = original(booster, feval)
            if self._is_training_loop(sys._getframe(1)):
                self._scored = results
            return results

        return eval_train

    def wrap_eval_valid(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def eval_valid(booster: Any, feval: Any = None) -> Any:
            results = original(booster, feval)
            frame = sys._getframe(1)
            if self._is_training_loop(frame):
                scored = [*self._scored, *results]
                callbacks = frame.f_locals.get("callbacks_after_iter", ())
                self._rounds.end_scoring(booster)
                self._rounds.end_round(
                    booster,
                    LightGBMBooster(booster),
                    lambda: _scores(scored, booster),
                    read_checks=lambda: _unwatched(callbacks, booster),
                    is_last=_is_last(frame),
                )
            return results

        return eval_valid

    def wrap_model_from_string(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def model_from_string(booster: Any, model_str: str) -> Any:
            self._rounds.end(booster)  # the end of training: from now on the booster only predicts
            return original(booster, model_str)

        return model_from_string

    def _is_training_loop(self, caller: FrameType) -> bool:
        return self._folds_thread != get_ident() and _is_engine_loop(caller)

    # --- folds --------------------------------------------------------------------------------------------

    def wrap_update_of_folds(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def update(folds: Any, *args: Any, **kwargs: Any) -> Any:
            self._rounds.begin_unannounced(folds)
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
                results = original(folds, *args, **kwargs)
            finally:
                self._folds_thread = before
            if _is_engine_loop(sys._getframe(1)):
                self._rounds.end_scoring(folds)
                self._rounds.end_round(folds, None, lambda: _scores_of_folds(results))
            return results

        return eval_valid


def _is_engine_loop(frame: FrameType) -> bool:
    """Return whether a frame is that of LightGBM's own ``train`` or ``cv``."""
    return frame.f_globals.get("__name__") == "lightgbm.engine" and frame.f_code.co_name in ("train", "cv")


def _is_last(frame: FrameType) -> bool:
    """Return whether ``train`` has reached the requested number of rounds; a callback may still end it earlier."""
    variables = frame.f_locals
    if not _is_engine_loop(frame) or not {"i", "init_iteration", "num_boost_round"} <= variables.keys():
        return False
    return bool(variables["i"] + 1 == variables["init_iteration"] + variables["num_boost_round"])


def _unwatched(callbacks: Sequence[Any], booster: Any) -> Mapping[str, float]:
    """Return the check of the training data if early stopping has no other evaluation set; else none."""
    is_to_stop = any(type(callback).__name__ == _EARLY_STOPPING for callback in callbacks)
    if not is_to_stop or booster.valid_sets or settings_of(booster)["booster"] == "dart":  # it never stops dart
        return {}
    return {f"{booster._train_data_name}/{UNWATCHED_TRAINING_SET}": 1.0}


def _scores(scored: Sequence[Any], booster: Any) -> list[Score]:
    return [
        _score(name, metric, value, is_higher_better, training=booster._train_data_name)
        for name, metric, value, is_higher_better, *_ in scored
    ]


def _score(
    name: str, metric: str, value: float, is_higher_better: bool, *, training: str = "train", suffix: str = ""
) -> Score:
    marks = (dataset_collection(name, is_training_data=name == training),)
    return Score(f"{name}-{metric}{suffix}", float(value), not is_higher_better and suffix != "-std", marks)


def _scores_of_folds(results: Any) -> list[Score]:
    """Return means and standard deviations over the folds, as ``lightgbm.cv`` reports them."""
    by_metric: dict[tuple[str, str, bool], list[float]] = {}
    for fold in results:
        for name, metric, value, is_higher_better, *_ in fold:
            by_metric.setdefault((name, metric, is_higher_better), []).append(float(value))
    return [
        _score(name, metric, number, is_higher_better, suffix=suffix)
        for (name, metric, is_higher_better), values in by_metric.items()
        for suffix, number in (("-mean", float(np.mean(values))), ("-std", float(np.std(values))))
    ]
