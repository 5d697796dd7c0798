"""Faults of trainings with Gluon are found while they run, and stop them; their healthy twins are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import LEADLINE, MXNET, Ended, environment, finish, needs_mxnet, script

STOPPED = 10
FAULTS = {
    "nan": "nonfinite_origin",
    "nan_hybrid": "nonfinite_origin",
    "exploding": "exploding_gradient",
    "vanishing": "vanishing_gradient",
    "dead_relu": "dead_relu",
    "untrained": "no_learning",
    "unscaled": "unscaled_input",
    "wrong_loss": "loss_input",
    "wrong_loss_hybrid": "loss_input",
    "over_batch": "loss_input",
    "swapped": "loss_input",
    "overfit": "overfit",
    "cut": "no_gradient",
}
CAPTURE = {
    "nan": ("--capture", "layers:every=1"),
    "nan_hybrid": ("--capture", "layers:every=1"),
    "exploding": ("--capture", "gradient_norms:every=1"),
}
MESSAGES = {
    "over_batch": "softmax is taken over the batch",
    "swapped": "is given labels as predictions",
}
NAN_STEP = 7

pytestmark = [pytest.mark.slow, needs_mxnet]


def train(folder: Path, *options: str, fault: str = "") -> Ended:
    settings = ("--out", str(folder / "runs"), "--budget", "off", "--no-default-rules", *options)
    job = (MXNET, script("mxnet_faults.py"), *([fault] if fault else []))
    return finish([MXNET, *LEADLINE[1:], "run", *settings, "--", *job], folder, env=environment())


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_stops_the_training(fault: str, tmp_path: Path) -> None:
    rule = FAULTS[fault]
    ended = train(tmp_path, "--rule", rule, *CAPTURE.get(fault, ()), "--on", f"{rule}=stop_training", fault=fault)
    findings = ended.run.findings().to_pylist()
    assert {finding["rule"] for finding in findings} == {rule}
    if fault.startswith("nan"):
        assert min(finding["step"] for finding in findings) == NAN_STEP
        assert "hybridsequential0_input_0" in findings[0]["message"]
    assert MESSAGES.get(fault, "") in findings[0]["message"]
    assert ended.status == STOPPED, ended.err
    assert "the script went on" not in ended.out


def test_the_healthy_twins_are_left_alone(tmp_path: Path) -> None:
    rules = [word for rule in dict.fromkeys(FAULTS.values()) for word in ("--rule", rule)]
    captured = [word for options in CAPTURE.values() for word in options]
    ended = train(tmp_path, *rules, *captured)
    assert ended.status == 0, ended.err
    assert ended.run.findings().to_pylist() == []
    assert ended.show()["steps"]["train"] > 1000
