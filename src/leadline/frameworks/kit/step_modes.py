"""Train steps in a row in which a model was in evaluation mode."""

from __future__ import annotations

from typing import Final, NamedTuple

TRAIN_STEPS_IN_EVAL_MODE: Final = "train_steps_in_eval_mode"
NO_MODES: Final = -1.0
"""The number of a model without dropout and batch normalization."""


class ModelMode(NamedTuple):
    """The mode of a trained model in a train step."""

    model: str
    is_evaluation: bool
    """Whether all of its dropout and batch normalization were in evaluation mode."""


def mode_checks(mode: ModelMode | None, steps: int) -> dict[str, float]:
    """Return the check of a train step.

    Args:
        mode: None: no trained model has dropout or batch normalization.
        steps: The steps in a row with this mode, with this one.
    """
    if mode is None:
        return {f"model/{TRAIN_STEPS_IN_EVAL_MODE}": NO_MODES}
    return {f"{mode.model}/{TRAIN_STEPS_IN_EVAL_MODE}": float(steps if mode.is_evaluation else 0)}
