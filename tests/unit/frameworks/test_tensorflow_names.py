"""What variables of TensorFlow are called together."""

from __future__ import annotations

import pytest

from leadline.frameworks.tensorflow.variable_names import model_of


@pytest.mark.parametrize(
    ("names", "model"),
    [
        (["net/dense/kernel", "net/dense/bias", "net/head/kernel"], "net"),
        (["dense/kernel", "dense/bias"], "dense"),
        (["dense/kernel", "head/kernel", "head/bias"], "dense and head"),
        (["a/kernel", "b/kernel", "c/kernel", "d/kernel"], "a, b, c and others"),
        (["Variable", "Variable_1"], ""),
    ],
)
def test_variables_are_called_after_their_model_or_their_layers(names: list[str], model: str) -> None:
    assert model_of(names) == model
