"""Facts about the losses of the toy framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import toynet

from leadline.frameworks.kit.array_verbs import ArrayVerbs
from leadline.frameworks.kit.loss_facts import NO_FACTS, label_facts, traced_facts, unused_name
from leadline.frameworks.kit.loss_trace import LossTrace, Operator
from leadline.records.loss_facts import CLASSES, Activation, LossKind

_KINDS: Final = {
    "mean_squared_error": LossKind.SQUARED_ERROR,
    "binary_cross_entropy": LossKind.BINARY_CROSS_ENTROPY,
}
_OPERATORS: Final[dict[str, Activation | Operator]] = {
    "relu": Activation.RELU,
    "sigmoid": Activation.SIGMOID,
    "matmul": Operator.LAYER,
    "add": Operator.SAME,
}


class ToyLossFacts:
    """The facts about the loss calls of a step."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, float]] = {}

    def add(self, name: str, predictions: toynet.Tensor, labels: toynet.Tensor) -> None:
        """Add the call of a loss."""
        kind, values = _KINDS[name], labels.data
        trace = LossTrace(_OPERATORS).follow(predictions, lambda tensor: (tensor.kind, tensor.inputs))
        columns = values.shape[1] if values.ndim > 1 else 1
        numbers = label_facts(ArrayVerbs(), values, kind, trace.activation, has_classes=columns > 1)
        found = traced_facts(kind, trace) | {CLASSES: float(columns)} | numbers
        self._found[unused_name(kind.name.lower(), self._found)] = found

    def take(self) -> Mapping[str, float]:
        """Return the facts of the step as checks, and start over."""
        found, self._found = self._found, {}
        return {f"{name}/{fact}": float(n) for name, facts in found.items() for fact, n in facts.items()} or NO_FACTS
