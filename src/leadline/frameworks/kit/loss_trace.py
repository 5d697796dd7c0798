"""The way back from a loss to the layer before it, over operators with their kinds and inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Final

from leadline.records.loss_facts import Activation

_MAX_OPERATORS: Final = 24


class Operator(Enum):
    """What an operator that is no activation means on the way."""

    LAYER = auto()
    """It ends the way: linear, convolution, normalization …"""
    DROPOUT = auto()
    RESCALING = auto()
    """It shifts or scales its input by something else."""
    SAME = auto()
    """It keeps the values of its input."""


class LossTrace:
    """What lies between a loss and the layer before it.

    Args:
        operators: What each kind of operator of the framework means; others end the way.
    """

    def __init__(self, operators: Mapping[str, Activation | Operator]) -> None:
        self.activation = self.inner = Activation.UNKNOWN
        self.is_rescaled = self.has_dropout = False
        self._operators, self._is_inner = operators, False

    def follow(self, node: Any, read: Callable[[Any], tuple[str, Sequence[Any]]]) -> LossTrace:
        """Follow a graph back from a node to a layer, or to an operator that is not known; return the trace.

        Args:
            read: Returns the kind of a node and its inputs, of which the first is followed.
        """
        for _ in range(_MAX_OPERATORS):
            kind, inputs = read(node)
            if not self._pass(self._operators.get(kind)) or not inputs:
                break
            node = inputs[0]
        return self

    def _pass(self, operator: Activation | Operator | None) -> bool:
        """Pass an operator; return whether what it is given matters too."""
        match operator:
            case Activation():
                self._end(operator)
                goes_on, self._is_inner = not self._is_inner, True
                return goes_on
            case Operator.LAYER:
                self._end(Activation.NONE)
                return False
            case Operator.DROPOUT:
                self.has_dropout = self.has_dropout or not self._is_inner
                return True
            case Operator.RESCALING if not self._is_inner:
                self.is_rescaled = True
                return True
            case _:
                return operator is Operator.SAME

    def _end(self, activation: Activation) -> None:
        if self._is_inner:
            self.inner = activation
        else:
            self.activation = activation
