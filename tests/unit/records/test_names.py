"""The module that a tensor belongs to, by its name."""

from __future__ import annotations

import pytest

from leadline.records.names import heading, module_of


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("gradient/block.0.weight", "block.0"),
        ("AdamW/exp_avg/block.0.weight", "block.0"),
        ("block.0_output_1", "block.0"),
        ("gradient/weight", ""),
        ("gradient/bias", ""),
        ("AdamW/exp_avg/bias", ""),
        ("sequential/dense/kernel", "sequential/dense"),
        ("gradient/sequential/dense/bias", "sequential/dense"),
        ("sequential/dense_output_0", "sequential/dense"),
        ("dense/kernel", "dense"),
        ("adam/learning_rate", ""),
    ],
)
def test_the_module_of_a_tensor(name: str, module: str) -> None:
    assert module_of(name) == module


def test_a_loss_is_called_by_its_kind() -> None:
    assert heading("CrossEntropyLoss_output_0", ("losses",)) == "loss (CrossEntropyLoss)"
    assert heading("fc_output_0", ("layers",)) == "fc_output_0"
    assert heading("val_loss", ("losses",)) == "val_loss"
