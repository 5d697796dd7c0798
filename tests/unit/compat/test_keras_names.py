"""smdebug's names of Keras' tensors, as its own trials have them."""

from __future__ import annotations

import pytest

from leadline.compat.smdebug.keras_names import smdebug_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sequential/dense/kernel", "dense/weights/dense/kernel:0"),
        ("functional/block/dense/bias", "dense/weights/dense/bias:0"),
        ("gradient/sequential/dense/kernel", "gradients/dense/kernelGrad"),
        ("sequential/dense_input_0", "dense/inputs"),
        ("sequential/dense_output_1", "dense/outputs_1"),
        ("sequential_output_0", "sequential_output_0"),
        ("metrics/accuracy", "accuracy"),
        ("loss", "loss"),
        ("scalar/epoch", "scalar/epoch"),
        ("adam/sequential_dense_bias_momentum", "adam/sequential_dense_bias_momentum"),
    ],
)
def test_names(name: str, expected: str) -> None:
    assert smdebug_name(name) == expected
