"""The module that a tensor belongs to, by its name."""

from __future__ import annotations

import pytest

from leadline.records.names import heading, layers_of, module_of


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


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("layer1/w", "layer1/b"), ("layer2/w", "layer2/b")),
        (("layers/0/weight", "layers/0/bias"), ("layers/1/weight", "layers/1/bias")),
        (("Dense_0/kernel", "Dense_0/bias"), ("Dense_1/kernel", "Dense_1/bias")),
        (("mlp/~/linear_0/w", "mlp/~/linear_0/b"), ("mlp/~/linear_1/w", "mlp/~/linear_1/b")),
        (("0/0", "0/1"), ("2/0", "2/1")),
        (("net0_dense0_weight", "net0_dense0_bias"), ("net0_dense1_weight", "net0_dense1_bias")),
        (("block.0.weight", "block.0.bias"), ("block.1.weight", "block.1.bias")),
        (("sequential/dense/kernel", "sequential/dense/bias"), ("pos_embed", "cls_token")),
    ],
)
def test_the_layers_of_parameters(first: tuple[str, ...], second: tuple[str, ...]) -> None:
    layers = layers_of([*first, *second])
    assert len({layers[name] for name in first}) == len({layers[name] for name in second}) == 1
    assert layers[first[0]] != layers[second[0]]


def test_names_without_a_path_tell_no_layer() -> None:
    assert set(layers_of(["w1", "b1", "w2", "b2"]).values()) == {""}


def test_a_loss_is_called_by_its_kind() -> None:
    assert heading("CrossEntropyLoss_output_0", ("losses",)) == "loss (CrossEntropyLoss)"
    assert heading("CrossEntropyLoss_output_2", ("losses",)) == "loss (CrossEntropyLoss, output 2)"
    assert heading("fc_output_0", ("layers",)) == "fc_output_0"
    assert heading("my_output_loss", ("losses",)) == "my_output_loss"
    assert heading("val_loss", ("losses",)) == "val_loss"
    assert heading("metrics/accuracy", ("metrics",)) == "accuracy"
