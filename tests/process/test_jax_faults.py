"""Faults of trainings with JAX are found while they run, and stop them; their healthy twins are left alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from launching import LEADLINE, ON_JAX, Ended, environment, finish, script

PYTHON = str(Path(__file__).parents[2] / ".venvs" / "jax" / "bin" / "python")
STOPPED = 10
FAULTS = {
    "nan": "nonfinite_origin",
    "exploding": "exploding_gradient",
    "vanishing": "vanishing_gradient",
    "dead_relu": "dead_relu",
    "cut": "no_gradient",
    "untrained": "no_learning",
    "overfit": "overfit",
}
NAN_STEP = 7

pytestmark = pytest.mark.slow


def train(fault: str, folder: Path, *arguments: str, rules: Sequence[str] = ()) -> Ended:
    options = ["--out", str(folder / "runs"), "--budget", "off", "--no-default-rules"]
    options += [word for rule in rules or [FAULTS[fault]] for word in ("--rule", rule)]
    options += ["--capture", "gradient_norms:every=1"] if fault == "exploding" or rules else []
    action = ("--on", f"{FAULTS[fault]}=stop_training")
    job = (PYTHON, script("jax_faults.py"), fault, *arguments)
    return finish([PYTHON, *LEADLINE[1:], "run", *options, *action, "--", *job], folder, env=environment(**ON_JAX))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_stops_the_training(fault: str, tmp_path: Path) -> None:
    ended = train(fault, tmp_path)
    findings = ended.run.findings().to_pylist()
    assert {finding["rule"] for finding in findings} == {FAULTS[fault]}, ended.err
    if fault == "nan":
        (first,) = [finding for finding in findings if finding["step"] == NAN_STEP]
        assert "made by module scale" in first["message"]
    assert ended.status == STOPPED, ended.err
    assert "the script went on" not in ended.out


@pytest.mark.parametrize("fault", ["vanishing", "untrained", "overfit"])
def test_healthy_twins_are_left_alone(fault: str, tmp_path: Path) -> None:
    """The twins of most faults are nearly the same training."""
    ended = train(fault, tmp_path, "healthy", rules=[*FAULTS.values()])
    assert ended.status == 0, ended.err
    assert ended.run.findings().num_rows == 0
