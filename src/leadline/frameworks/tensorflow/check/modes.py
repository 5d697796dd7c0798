"""The probe of models that behave differently than their mode says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import keras

from leadline.frameworks.check.modes import (
    LAST_BATCH,
    MOSTLY_DROPPED,
    NEVER,
    follows_mode,
    mostly_dropped,
    odd_momentum,
    same_in_both_modes,
)
from leadline.frameworks.check.outcome import Tested, failed
from leadline.frameworks.tensorflow.check.retracing import Retracing

_DROPOUTS: Final = (
    keras.layers.Dropout,
    keras.layers.SpatialDropout1D,
    keras.layers.SpatialDropout2D,
    keras.layers.SpatialDropout3D,
    keras.layers.AlphaDropout,
    keras.layers.GaussianDropout,
)


_MOMENTUM: Final = "Keras's momentum is the weight of what it had before"


def test_modes(training: Retracing, evaluation: Retracing) -> Tested:
    """Look at dropout and batch statistics in both modes.

    Args:
        training: The step, as it is.
        evaluation: The step with its models in evaluation mode.
    """
    drops = _of(training, _DROPOUTS, "rate")
    norms = [norm for norm in _of(training, keras.layers.BatchNormalization, "momentum") if norm.trainable]
    for drop in drops:
        if drop.rate >= MOSTLY_DROPPED:
            return mostly_dropped(drop.path or drop.name, drop.rate)
    for norm in norms:
        weight = 1 - norm.momentum
        if weight > LAST_BATCH or weight < NEVER / 2:
            return odd_momentum(norm.path or norm.name, norm.momentum, weight, _MOMENTUM)
    active = [drop for drop in drops if training.changed(drop.seed_generator.state)]
    moving = [norm for norm in norms if training.changed(norm.moving_mean)]
    if (drops or norms) and not active and not moving:
        return failed(
            "the model was in evaluation mode in this train step: without dropout, and with moving statistics",
            "call the model with training=True; a subclassed model needs an argument training, to pass it on",
        )
    still = [drop for drop in _of(evaluation, _DROPOUTS, "rate") if evaluation.changed(drop.seed_generator.state)]
    if still:
        return failed(
            f"in evaluation mode dropout is still active: {still[0].path or still[0].name} is given training=True",
            "leave the argument out, or pass that of the model on",
            calls=len(still),
        )
    if not drops and not norms:
        return same_in_both_modes()
    return follows_mode(len(drops), len(norms))


def _of(retracing: Retracing, kinds: Any, setting: str) -> Sequence[Any]:
    """Return the layers of some kinds that were called, each once, with a setting that is not 0."""
    found = {id(layer): layer for layer in retracing.called if isinstance(layer, kinds)}
    return [layer for layer in found.values() if getattr(layer, setting)]
