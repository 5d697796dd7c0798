"""The arrays that a step was given, which may have caused a loss that is not finite."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import tensorflow as tf

from leadline.frameworks.kit.named_tensor import NamedTensor
from leadline.frameworks.tensorflow.replay import StepCall
from leadline.records.names import WHOLE_DATA

_MAX_BYTES: Final = 1 << 28
"""Larger data of ``fit`` are not searched."""


def given_to(call: StepCall) -> list[NamedTensor]:
    """Return the arrays that a function was called with."""
    name = str(call.function.name)
    values = [value for value in tf.nest.flatten((call.args, call.kwargs)) if _is_float(value)]
    return [NamedTensor(f"{name}_input_{at}", ("inputs", "layers"), np.asarray(v)) for at, v in enumerate(values)]


def given_to_fit(data: Any) -> list[NamedTensor]:
    """Return the arrays that ``fit`` was given as inputs: it shows no batch of them."""
    values = [value for value in tf.nest.flatten(data) if _is_float(value)]
    if sum(np.size(value) * value.dtype.size if tf.is_tensor(value) else value.nbytes for value in values) > _MAX_BYTES:
        return []
    return [
        NamedTensor(f"fit_input_{at}", ("inputs", "layers", WHOLE_DATA), np.asarray(v)) for at, v in enumerate(values)
    ]


def _is_float(value: Any) -> bool:
    """Return whether an argument is an array of floating-point numbers, and no variable."""
    if isinstance(value, tf.Variable) or not isinstance(value, (tf.Tensor, np.ndarray)):
        return False
    return value.dtype.kind == "f" if isinstance(value, np.ndarray) else bool(value.dtype.is_floating)
