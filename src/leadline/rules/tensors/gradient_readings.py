"""What a window says of the gradients of optimizers, and of whether a gradient was to be expected."""

from __future__ import annotations

from leadline.rules import TensorReading, Window
from leadline.rules.losses.guess import is_loss_call


def all_readings(window: Window) -> list[TensorReading]:
    return [reading for name in ("update_ratio", "abs_max", "value") for reading in window.readings(name)]


def is_of_optimizer(reading: TensorReading) -> bool:
    return reading.statistic != "value" or "gradient_norms" in reading.collections


def losses_of(window: Window) -> list[TensorReading]:
    return [reading for reading in window.readings("value") if "losses" in reading.collections]


def has_lesson_in(window: Window) -> bool:
    """Return whether a gradient is to be expected: not where the script's own expressions are exactly 0."""
    losses = losses_of(window)
    return not losses or any(reading.value != 0.0 or is_loss_call(reading.tensor) for reading in losses)


def is_at_rest(window: Window) -> bool:
    """Return whether every learning rate is 0: what the parameters are, they stay."""
    rates = [reading.value for reading in window.readings("value") if "hyperparameters" in reading.collections]
    return bool(rates) and not any(rates)
