"""The optimizers or functions that own the steps of a call, and what they have counted."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from leadline.frameworks.tensorflow.replay import StepCall


def owners_of(call: StepCall) -> list[Any]:
    """Return the optimizers that a call applies, or its function."""
    return call.facts.optimizers or [call.function]


def counted_by(call: StepCall) -> Any | None:
    """Return the optimizer whose updates must be counted, because a call may make none of them, or several."""
    for optimizer in call.facts.optimizers:
        if call.batches > 1 or hasattr(optimizer, "inner_optimizer") or optimizer.gradient_accumulation_steps:
            return optimizer
    return None


def iterations_of(optimizer: Any) -> int:
    """Return the number of batches so far; ``iterations`` counts updates."""
    return int(tf.convert_to_tensor(getattr(optimizer, "inner_optimizer", optimizer)._iterations))


def micro_batches_of(optimizer: Any) -> int:
    """Return the number of batches for which an optimizer adds up gradients."""
    return getattr(optimizer, "inner_optimizer", optimizer).gradient_accumulation_steps or 1
