"""The probe of models whose saved state is not all that they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leadline.frameworks.check.outcome import Tested, failed, not_applicable, passed
from leadline.frameworks.tensorflow.check.retracing import Retracing

_ADVICE = "create it with add_weight, or as a keras.Variable that is an attribute of the layer: Keras 3 does not save "


def test_state(concrete: Any, retracing: Retracing, written: Sequence[Any], optimizer: Any) -> Tested:
    """Look for variables that the step reads and that the weights of the models do not have.

    Args:
        concrete: The traced step.
        written: The variables that it may write, and that Keras does not know.
    """
    models = [call.layer for call in retracing.calls]
    if not models:
        return not_applicable("the step calls no model of Keras")
    known = {id(variable._value) for model in models for variable in model.variables}
    known |= {id(variable._value) for variable in optimizer.variables}
    held = {
        id(value): f"{layer.path}.{name}"
        for layer in retracing.called
        for name, value in vars(layer).items()
        if hasattr(value, "handle") and hasattr(value, "assign") and not hasattr(value, "path")
    }
    outside = [variable for variable in concrete.variables if id(variable) in held and id(variable) not in known]
    if outside:
        names = [held[id(variable)] for variable in outside]
        changed = {id(variable) for variable in written}
        does = "changes in training" if id(outside[0]) in changed else "is used"
        return failed(
            f"{names[0]} is a tf.Variable that {does} and not among the weights of the model: a saved model loses it",
            f"{_ADVICE}a tf.Variable of a layer",
            names=names[:16],
        )
    count = len({id(variable) for model in models for variable in model.weights})
    return passed(f"all that the step reads of its layers is among the {count:,} weights of the model")
