"""A framework that does not exist: an adapter over the kit is short, and keeps the contract of all adapters."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import ClassVar

import pytest
from launching import LEADLINE, environment, finish, script

from leadline.records.loss_facts import Activation, LossKind
from leadline.testing.adapter_contract import AdapterContract

HERE = Path(__file__).parent
STOPPED, NAN_STEP = 10, 7
MAX_FILES, MAX_LINES = 8, 500


@pytest.mark.slow
class TestToyFramework(AdapterContract):
    python = sys.executable
    training = HERE / "trainings" / "trained_by_toynet.py"
    framework = "toynet "
    steps: ClassVar[dict[str, int]] = {"train": 6}
    members: ClassVar[dict[str, str]] = {
        "first/weight": "weights",
        "gradient/first/weight": "gradients",
        "first/bias": "biases",
        "binary_cross_entropy_output_0": "losses",
        "first_output_0": "layers",
        "network_input_0": "inputs",
        "network_output_0": "outputs",
        "binary_cross_entropy_input_0": "predictions",
        "binary_cross_entropy_input_1": "labels",
        "Momentum/velocity/first/weight": "optimizer_variables",
        "Momentum/rate": "hyperparameters",
        "gradient_norm": "gradient_norms",
    }

    def test_facts_about_the_loss_are_known(self) -> None:
        run = self.run_of("watched")
        expected = {
            "loss_kind": LossKind.BINARY_CROSS_ENTROPY,
            "activation": Activation.SIGMOID,
            "inner_activation": Activation.NONE,
            "one_hot_share": 1.0,
        }
        found = {fact: run.tensor(f"binary_cross_entropy/{fact}").statistic("value", 0) for fact in expected}
        assert found == expected


def test_the_adapter_is_short() -> None:
    files = list((HERE / "toy_framework" / "toynet_adapter").glob("*.py"))
    assert len(files) <= MAX_FILES
    assert sum(len(file.read_text().splitlines()) for file in files) <= MAX_LINES


@pytest.mark.slow
def test_a_nan_stops_the_training(tmp_path: Path) -> None:
    rule = "nonfinite_origin"
    options = ("--no-default-rules", "--rule", rule, "--capture", "layers:every=1", "--on", f"{rule}=stop_training")
    command = [*LEADLINE, "run", "--out", str(tmp_path / "runs"), "--budget", "off", *options]
    ended = finish([*command, "--", sys.executable, script("toynet_nan.py")], tmp_path, env=environment())
    findings = ended.run.findings().to_pylist()
    assert {finding["rule"] for finding in findings} == {rule}
    assert min(finding["step"] for finding in findings) == NAN_STEP
    assert "network_input_0" in findings[0]["message"]
    assert ended.status == STOPPED, ended.err
    assert "the script went on" not in ended.out
