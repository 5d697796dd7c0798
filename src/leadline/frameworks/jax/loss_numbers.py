"""Facts about the values that a loss is given, computed on the device within a replay."""

from __future__ import annotations

from typing import Any, Final

import jax.numpy as jnp
import numpy as np

from leadline.frameworks.jax import compatibility, kernels
from leadline.frameworks.jax.loss_calls import TracedLossCall
from leadline.frameworks.kit.array_verbs import ArrayVerbs
from leadline.frameworks.kit.loss_facts import label_facts, probability_facts
from leadline.records.plan import CaptureItem
from leadline.records.recorded_facts import LABEL_FACTS, PROBABILITY_FACTS

LOSS_FACTS: Final = CaptureItem("checks", statistics=("value",))
"""What selects the numbers of loss calls."""
NUMBERS: Final = (*LABEL_FACTS, *PROBABILITY_FACTS)
"""The facts of a row of numbers; what is not known is NaN."""


class JaxVerbs(ArrayVerbs):
    """Operations on arrays in a program of JAX."""

    def __init__(self) -> None:
        super().__init__(jnp)

    def doubles(self, values: Any) -> Any:
        return jnp.asarray(values).astype(kernels.wide_type())


def numbers_of(call: TracedLossCall, predictions: Any, labels: Any) -> Any:
    """Return the number of labels, and the facts about the values of a loss call.

    Shape:
        result: ``(1 + len(NUMBERS),)``.
    Not a number:
        Facts about labels of which one is NaN are NaN.
    """
    verbs, given, found = JaxVerbs(), call.given, dict[str, Any]()
    with compatibility.enable_x64(True):
        if given.has_numbers and labels.size:
            has_classes = labels.ndim == 2 and labels.shape[1] > 1
            found |= label_facts(verbs, labels, given.kind, call.activation, has_classes=has_classes)
            is_known = jnp.logical_not(jnp.any(jnp.isnan(verbs.doubles(labels))))
            found = {fact: jnp.where(is_known, number, jnp.nan) for fact, number in found.items()}
        if given.axis is not None and predictions.ndim > 1 and predictions.size:
            found |= probability_facts(verbs, predictions, given.kind, given.axis)
        row = [labels.size, *(found.get(fact, np.nan) for fact in NUMBERS)]
        return jnp.stack([verbs.doubles(number) for number in row])
