"""The checkpoints of SageMaker's XGBoost: a model for each of the last rounds."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any, Final

import xgboost

_NAME: Final = "xgboost-checkpoint"
_NUMBERED: Final = re.compile(rf"{_NAME}\.(\d+)")
_KEPT: Final = 5


def latest(folder: str) -> tuple[str | None, int]:
    """Return the last checkpoint that can be read, and the number of rounds that were trained until then."""
    rounds = sorted(
        (int(match[1]) for name in os.listdir(folder) if (match := _NUMBERED.fullmatch(name))), reverse=True
    )
    for number in rounds:
        path = _path(folder, number)
        with suppress(xgboost.core.XGBoostError):  # it was being written when the training was interrupted
            xgboost.Booster(model_file=path)
            return path, number + 1
    return None, 0


def save(model: Any, path: str) -> None:
    """Write a model, so that it is never there in part; every version of XGBoost from 1.0 reads JSON."""
    partial = f"{path}.sagemaker-ignore"
    with open(partial, "wb") as file:
        file.write(model.save_raw("json"))
    os.replace(partial, path)


class SaveCheckpoint(xgboost.callback.TrainingCallback):  # type: ignore[misc] # xgboost has no types here
    """Saves each round, and keeps the last five.

    Args:
        first: The rounds that an earlier training has made.
    """

    def __init__(self, folder: str, first: int) -> None:
        super().__init__()
        self._folder, self._first = folder, first

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Save the round."""
        number = self._first + epoch
        save(model, _path(self._folder, number))
        if epoch >= _KEPT:  # those of an earlier training stay
            with suppress(FileNotFoundError):
                os.unlink(_path(self._folder, number - _KEPT))
        return False


def _path(folder: str, number: int) -> str:
    return os.path.join(folder, f"{_NAME}.{number}")
