"""Contract tests of the facts about loss calls: what each adapter records is what the pages of the rules say."""

from __future__ import annotations

import sys
from pathlib import Path

from launching import MXNET, ON_JAX, ON_TENSORFLOW, needs_mxnet

from leadline.records.recorded_facts import RECORDED_FACTS
from leadline.testing.adapter_contract import LossFactsContract

HERE = Path(__file__).parent
JAX = str(HERE.parents[1] / ".venvs" / "jax" / "bin" / "python")
TENSORFLOW = str(HERE.parents[1] / ".venvs" / "tensorflow" / "bin" / "python")


class TestTorch(LossFactsContract):
    python = sys.executable
    training = HERE / "trainings" / "losses_of_torch.py"
    framework = "PyTorch"


class TestKeras(LossFactsContract):
    python = TENSORFLOW
    training = HERE / "trainings" / "losses_of_keras.py"
    framework = "Keras on PyTorch"


class TestTensorFlow(LossFactsContract):
    python = TENSORFLOW
    variables = ON_TENSORFLOW
    training = HERE / "trainings" / "losses_of_tensorflow.py"
    framework = "TensorFlow"


@needs_mxnet
class TestMXNet(LossFactsContract):
    python = MXNET
    training = HERE / "trainings" / "losses_of_mxnet.py"
    framework = "MXNet"


class TestJax(LossFactsContract):
    python = JAX
    variables = ON_JAX
    training = HERE / "trainings" / "losses_of_jax.py"
    framework = "JAX"


def test_every_row_of_the_table_has_a_contract() -> None:
    contracts = LossFactsContract.__subclasses__()
    assert {contract.framework for contract in contracts} == set(RECORDED_FACTS)
