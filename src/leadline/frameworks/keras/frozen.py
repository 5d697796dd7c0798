"""Models of Keras that are fitted although nothing in them is trainable."""

from __future__ import annotations

import sys
from typing import Any

FROZEN_PARAMETERS = "frozen_parameters"
"""The check of such a model: the number of its parameters, all of them frozen."""


def frozen_parameters(model: Any) -> dict[str, float]:
    """Return the check that all parameters of a model are frozen; empty: one is not, or ``fit`` does something else.

    Keras then computes losses and metrics of each batch, and updates nothing; it only warns. A ``train_step`` of the
    script's own may update what is not trainable.
    """
    if model.trainable_variables or type(model).train_step is not default_train_step():
        return {}
    count = sum(len(layer._trainable_variables) for layer in model._flatten_layers())
    return {f"{model.name}/{FROZEN_PARAMETERS}": float(count)} if count else {}


def default_train_step() -> Any:
    """Return the train step that ``fit`` uses where a model has none of its own."""
    return sys.modules["keras"].Model.train_step
