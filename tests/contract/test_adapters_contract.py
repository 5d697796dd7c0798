"""Contract tests of the adapters, and the table of supported collections generated from their runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import ClassVar

import pytest
from launching import MXNET, ON_JAX, ON_TENSORFLOW, needs_mxnet

from leadline.frameworks.loaded_adapters import FRAMEWORKS
from leadline.records.recorded_facts import RECORDED_CHECKS
from leadline.testing.adapter_contract import AdapterContract

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "frameworks.md"
TREES = str(HERE.parents[1] / ".venvs" / "trees" / "bin" / "python")
JAX = str(HERE.parents[1] / ".venvs" / "jax" / "bin" / "python")
TENSORFLOW = str(HERE.parents[1] / ".venvs" / "tensorflow" / "bin" / "python")
BEGIN, END = "<!-- begin: made by scripts/framework_table.py -->", "<!-- end -->"


@pytest.mark.slow
class TestTorch(AdapterContract):
    python = sys.executable
    training = HERE / "trainings" / "trained_by_torch.py"
    framework = "torch "
    steps: ClassVar[dict[str, int]] = {"train": 6, "eval": 2}
    members: ClassVar[dict[str, str]] = {
        "0.weight": "weights",
        "gradient/0.weight": "gradients",
        "0.bias": "biases",
        "CrossEntropyLoss_output_0": "losses",
        "1_output_0": "layers",
        "Adam/exp_avg/0.weight": "optimizer_variables",
    }


@pytest.mark.slow
class TestXGBoost(AdapterContract):
    python = TREES
    training = HERE / "trainings" / "trained_by_xgboost.py"
    framework = "xgboost "
    steps: ClassVar[dict[str, int]] = {"train": 8}
    members: ClassVar[dict[str, str]] = {
        "train-logloss": "losses",
        "held-logloss": "validation_set",
        "held-auc": "metrics",
        "labels": "labels",
        "predictions": "predictions",
        "feature_importance/gain/f0": "feature_importance",
        "feature_importance/total_cover/f3": "feature_importance",
        "average_shap/f0": "average_shap",
        "full_shap": "full_shap",
        "trees/Gain": "trees",
        "hyperparameters/max_depth": "hyperparameters",
    }


@pytest.mark.slow
class TestLightGBM(AdapterContract):
    python = TREES
    training = HERE / "trainings" / "trained_by_lightgbm.py"
    framework = "lightgbm "
    steps: ClassVar[dict[str, int]] = {"train": 8}
    members: ClassVar[dict[str, str]] = {
        "train-binary_logloss": "training_set",
        "held-binary_logloss": "losses",
        "held-auc": "metrics",
        "labels": "labels",
        "predictions": "predictions",
        "feature_importance/split/Column_0": "feature_importance",
        "average_shap/Column_0": "average_shap",
        "full_shap": "full_shap",
        "trees/Depth": "trees",
        "hyperparameters/num_leaves": "hyperparameters",
    }


@pytest.mark.slow
class TestGeneric(AdapterContract):
    python = sys.executable
    training = HERE / "trainings" / "trained_by_hand.py"
    framework = "generic"
    steps: ClassVar[dict[str, int]] = {"train": 6, "eval": 1}
    members: ClassVar[dict[str, str]] = {
        "loss": "losses",
        "rate": "scalars",
        "weight": "weights",
        "gradient/weight": "gradients",
        "error": "default",
    }


@pytest.mark.slow
class TestTensorFlow(AdapterContract):
    python = TENSORFLOW
    variables = ON_TENSORFLOW
    training = HERE / "trainings" / "trained_by_tensorflow.py"
    framework = "tensorflow "
    steps: ClassVar[dict[str, int]] = {"train": 6, "eval": 2}
    members: ClassVar[dict[str, str]] = {
        "network/dense/kernel": "weights",
        "gradient/network/dense/kernel": "gradients",
        "network/dense/bias": "biases",
        "loss": "losses",
        "metrics/accuracy": "metrics",
        "network/dense_output_0": "relu_output",
        "network/dropout_output_0": "layers",
        "network_input_0": "inputs",
        "sparse_categorical_crossentropy_input_0": "predictions",
        "sparse_categorical_crossentropy_input_1": "labels",
        "adam/network_dense_kernel_momentum": "optimizer_variables",
        "adam/learning_rate": "hyperparameters",
        "gradient_norm": "gradient_norms",
    }


@pytest.mark.slow
class TestKeras(AdapterContract):
    python = TENSORFLOW
    training = HERE / "trainings" / "trained_by_keras.py"
    framework = "keras "
    steps: ClassVar[dict[str, int]] = {"train": 6, "eval": 2}
    members: ClassVar[dict[str, str]] = {
        "network/dense/kernel": "weights",
        "gradient/network/dense/kernel": "gradients",
        "network/dense/bias": "biases",
        "sparse_categorical_crossentropy_output_0": "losses",
        "Adam/momentum/network/dense/kernel": "optimizer_variables",
        "Adam/lr": "hyperparameters",
        "gradient_norm": "gradient_norms",
    }


@pytest.mark.slow
@needs_mxnet
class TestMXNet(AdapterContract):
    python = MXNET
    training = HERE / "trainings" / "trained_by_mxnet.py"
    framework = "mxnet "
    steps: ClassVar[dict[str, int]] = {"train": 6, "eval": 2}
    members: ClassVar[dict[str, str]] = {
        "first_weight": "weights",
        "gradient/first_weight": "gradients",
        "first_bias": "biases",
        "cross_entropy_output_0": "losses",
        "first_relu_output_0": "relu_output",
        "dropout0_output_0": "layers",
        "hybridsequential0_input_0": "inputs",
        "hybridsequential0_output_0": "outputs",
        "cross_entropy_input_0": "predictions",
        "cross_entropy_input_1": "labels",
        "Adam/mean/first_weight": "optimizer_variables",
        "Adam/learning_rate": "hyperparameters",
        "gradient_norm": "gradient_norms",
    }


@pytest.mark.slow
class TestJax(AdapterContract):
    python = JAX
    variables = ON_JAX
    training = HERE / "trainings" / "trained_by_jax.py"
    framework = "jax "
    steps: ClassVar[dict[str, int]] = {"train": 6, "eval": 2}
    members: ClassVar[dict[str, str]] = {
        "first/kernel": "weights",
        "gradient/first/kernel": "gradients",
        "first/bias": "biases",
        "loss": "losses",
        "first_output_0": "dense_output",
        "Network_input_0": "inputs",
        "Network_output_0": "outputs",
        "optimizer/0/mu/first/kernel": "optimizer_variables",
        "gradient_norm": "gradient_norms",
    }


CONTRACTS = {
    "PyTorch": TestTorch,
    "XGBoost": TestXGBoost,
    "LightGBM": TestLightGBM,
    "TensorFlow": TestTensorFlow,
    "Keras on PyTorch": TestKeras,
    "JAX": TestJax,
    "MXNet": TestMXNet,
    "`leadline.Hook`": TestGeneric,
}
ROWS = (
    "losses",
    "metrics",
    "scalars",
    "hyperparameters",
    "weights",
    "biases",
    "gradients",
    "gradient_norms",
    "optimizer_variables",
    "inputs",
    "outputs",
    "labels",
    "predictions",
    "layers",
    "default",
    "feature_importance",
    "average_shap",
    "full_shap",
    "trees",
)


def table() -> str:
    """Return a table of the modes that each adapter captured in its training, by collection."""
    supported = {name: contract.collections() for name, contract in CONTRACTS.items()}
    lines = [f"| collection | {' | '.join(supported)} |", f"|---|{'---|' * len(supported)}"]
    for row in ROWS:
        cells = [", ".join(sorted(modes.get(row, ()), reverse=True)) or "–" for modes in supported.values()]
        lines.append(f"| `{row}` | {' | '.join(cells)} |")
    for what in dict.fromkeys(what for what, _ in RECORDED_CHECKS.values()):
        has = frozenset().union(*(frameworks for topic, frameworks in RECORDED_CHECKS.values() if topic == what))
        lines.append(f"| `checks`: {what} | {' | '.join('train' if name in has else '–' for name in supported)} |")
    steps = [", ".join(f"{count} {mode}" for mode, count in contract.steps.items()) for contract in CONTRACTS.values()]
    return "\n".join([*lines, f"| steps of the contract's training | {' | '.join(steps)} |"])


@pytest.mark.slow
@needs_mxnet
def test_the_table_of_the_page_is_up_to_date() -> None:
    """Update it with ``scripts/framework_table.py``."""
    _, _, rest = PAGE.read_text().partition(BEGIN)
    assert rest.partition(END)[0].strip() == table()


def test_every_framework_has_a_contract() -> None:
    assert {contract.framework.strip() for contract in CONTRACTS.values()} == {*FRAMEWORKS, "generic"}


def test_the_bootstrap_waits_for_every_framework() -> None:
    site = HERE.parents[1] / "src" / "leadline" / "training" / "bootstrap" / "site" / "sitecustomize.py"
    (line,) = [line for line in site.read_text().splitlines() if line.strip().startswith("names = ")]
    assert line.strip() == f"names = ({', '.join(repr(name).replace(chr(39), chr(34)) for name in FRAMEWORKS)})"
