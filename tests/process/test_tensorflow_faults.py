"""Faults of trainings with TensorFlow are found while they run, and stop them; their healthy twins are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import LEADLINE, Ended, environment, finish, script

PYTHON = str(Path(__file__).parents[2] / ".venvs" / "tensorflow" / "bin" / "python")
STOPPED = 10
FAULTS = {
    "nan": "nonfinite_origin",
    "nan_xla": "nonfinite_origin",
    "exploding": "exploding_gradient",
    "vanishing": "vanishing_gradient",
    "dead_relu": "dead_relu",
    "unscaled": "unscaled_input",
}
CAPTURE = {"exploding": ("--capture", "gradient_norms:every=1")}
NAN_STEP = 7

pytestmark = pytest.mark.slow


def train(fault: str, folder: Path, *arguments: str) -> Ended:
    calm = environment(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
    options = ("--out", str(folder / "runs"), "--budget", "off", "--no-default-rules", "--rule", FAULTS[fault])
    stop = ("--on", f"{FAULTS[fault]}=stop_training")
    options = (*options, *CAPTURE.get(fault, ()))
    words = [*LEADLINE, "run", *options, *stop, "--", PYTHON, script("tensorflow_faults.py"), fault, *arguments]
    return finish(words, folder, env=calm)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_stops_the_training(fault: str, tmp_path: Path) -> None:
    ended = train(fault, tmp_path)
    findings = ended.run.findings().to_pylist()
    assert {finding["rule"] for finding in findings} == {FAULTS[fault]}
    if fault.startswith("nan"):
        assert min(finding["step"] for finding in findings) == NAN_STEP
    assert ended.status == STOPPED, ended.err
    assert "the script went on" not in ended.out


@pytest.mark.parametrize("fault", FAULTS)
def test_its_healthy_twin_is_left_alone(fault: str, tmp_path: Path) -> None:
    ended = train(fault, tmp_path, "healthy")
    assert ended.status == 0, ended.err
    assert ended.run.findings().num_rows == 0
