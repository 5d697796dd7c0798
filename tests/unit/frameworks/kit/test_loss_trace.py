"""The way back from a loss to its layer, over a graph of any framework."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from leadline.frameworks.kit.loss_trace import LossTrace, Operator
from leadline.records.loss_facts import Activation

OPERATORS = {
    "dense": Operator.LAYER,
    "reshape": Operator.SAME,
    "scale": Operator.RESCALING,
    "dropout": Operator.DROPOUT,
    "softmax": Activation.SOFTMAX,
    "tanh": Activation.TANH,
}
UNKNOWN, NONE, SOFTMAX, TANH = Activation.UNKNOWN, Activation.NONE, Activation.SOFTMAX, Activation.TANH


def trace_of(path: str) -> LossTrace:
    """Return the trace of a chain of operators, the one next to the loss first."""

    def read(kinds: Sequence[str]) -> tuple[str, Sequence[Any]]:
        return kinds[0], [kinds[1:]] if len(kinds) > 1 else []

    return LossTrace(OPERATORS).follow(path.split(), read)


@pytest.mark.parametrize(
    ("path", "activation", "inner", "is_rescaled", "has_dropout"),
    [
        ("dense softmax", NONE, UNKNOWN, False, False),
        ("softmax dense", SOFTMAX, NONE, False, False),
        ("reshape softmax reshape tanh dense", SOFTMAX, TANH, False, False),
        ("softmax tanh softmax", SOFTMAX, TANH, False, False),
        ("scale dropout tanh dense", TANH, NONE, True, True),
        ("tanh dropout dense", TANH, NONE, False, False),
        ("tanh scale dense", TANH, UNKNOWN, False, False),
        ("pool softmax", UNKNOWN, UNKNOWN, False, False),
        (" ".join(["reshape"] * 40 + ["softmax"]), UNKNOWN, UNKNOWN, False, False),
    ],
)
def test_a_chain_of_operators(
    path: str, activation: Activation, inner: Activation, is_rescaled: bool, has_dropout: bool
) -> None:
    trace = trace_of(path)
    assert (trace.activation, trace.inner) == (activation, inner)
    assert (trace.is_rescaled, trace.has_dropout) == (is_rescaled, has_dropout)
