"""Faults of trainings with TensorFlow are found while they run, and stop them; their healthy twins are left alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from launching import LEADLINE, ON_TENSORFLOW, Ended, environment, finish, script

PYTHON = str(Path(__file__).parents[2] / ".venvs" / "tensorflow" / "bin" / "python")
STOPPED = 10
FAULTS = {
    "nan": "nonfinite_origin",
    "nan_xla": "nonfinite_origin",
    "by_hand": "exploding_tensor",
    "exploding": "exploding_gradient",
    "vanishing": "vanishing_gradient",
    "dead_relu": "dead_relu",
    "unscaled": "unscaled_input",
    "wrong_loss": "loss_input",
    "pixels": "loss_input",
    "overfit": "overfit",
    "no_training_flag": "eval_in_train_mode",
    "no_training_flag_eager": "eval_in_train_mode",
}
NAN_STEP = 7

pytestmark = pytest.mark.slow


def train(fault: str, folder: Path, *arguments: str, stop: str = "stop_training", rules: Sequence[str] = ()) -> Ended:
    calm = environment(**ON_TENSORFLOW)
    options = ["--out", str(folder / "runs"), "--budget", "off", "--no-default-rules"]
    options += [word for rule in rules or [FAULTS[fault]] for word in ("--rule", rule)]
    options += ["--capture", "gradient_norms:every=1"] if fault == "exploding" or rules else []
    action = ("--on", f"{FAULTS[fault]}={stop}")
    job = (PYTHON, script("tensorflow_faults.py"), fault, *arguments)
    words = [PYTHON, *LEADLINE[1:], "run", *options, *action, "--", *job]
    return finish(words, folder, env=calm)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_stops_the_training(fault: str, tmp_path: Path) -> None:
    ended = train(fault, tmp_path)
    findings = ended.run.findings().to_pylist()
    assert {finding["rule"] for finding in findings} == {FAULTS[fault]}
    if fault.startswith("nan") or fault == "by_hand":
        assert min(finding["step"] for finding in findings) == NAN_STEP
    if fault == "pixels":
        assert "is given labels from 0 to 255" in findings[0]["message"]
    assert ended.status == STOPPED, ended.err
    assert "the script went on" not in ended.out


@pytest.mark.parametrize("fault", ["nan_xla", "by_hand", "overfit", "no_training_flag", "no_training_flag_eager"])
def test_healthy_twins_are_left_alone(fault: str, tmp_path: Path) -> None:
    """The twins of most faults are nearly the same training."""
    ended = train(fault, tmp_path, "healthy", rules=[*dict.fromkeys(FAULTS.values())])
    assert ended.status == 0, ended.err
    assert ended.run.findings().num_rows == 0


def test_fit_ends_and_the_script_goes_on_if_it_may_finish(tmp_path: Path) -> None:
    ended = train("nan", tmp_path, stop="stop_training:let_script_finish=true")
    assert (ended.status, ended.lines[-1]) == (0, "the script went on"), ended.err
    assert ended.show()["status"] == "Stopped"
    assert ended.show()["steps"]["train"] < 60
