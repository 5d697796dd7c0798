"""Trainings that are healthy or faulty from their first steps: what rules say of them, and what they do not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from false_alarms import judge_all
from judged_runs import Told
from launching import PATIENCE, SCRIPTS, environment

pytestmark = pytest.mark.slow

SILENT = {
    "small_parameters": ("poor_weight_initialization", "vanishing_gradient", "all_zero"),
    "deep_defaults": ("poor_weight_initialization", "vanishing_gradient"),
    "adapter_in_warm_up": ("all_zero", "vanishing_gradient", "learning_rate", "weight_saturation"),
    "converged": ("vanishing_gradient", "poor_weight_initialization"),
    "satisfied_margin": ("vanishing_gradient",),
    "pretrained": (),
    "adversarial": ("poor_weight_initialization",),
    "summed_loss": (),
}
"""By healthy training, the rules besides those below that have nothing to find."""
ALWAYS_SILENT = ("loss_at_start", "loss_spike", "no_gradient", "no_learning")
FOUND = {
    "detached_output": ("no_gradient", 2),
    "rounded_output": ("no_gradient", 2),
    "detached_encoder": ("no_gradient", 10),
    "dead_units": ("no_gradient", 10),
    "one_class": ("no_gradient", 2),
    "new_loss_tensor": ("no_gradient", 2),
    "huge_rate": ("loss_at_start", 9),
    "unscaled_pixels": ("loss_at_start", 9),
}
"""By faulty training, the rule that finds the fault by default, and the latest step."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Told]]:
    folder = tmp_path_factory.mktemp("runs")
    arguments = [sys.executable, str(SCRIPTS / "first_steps.py"), str(folder)]
    ended = subprocess.run(
        arguments, capture_output=True, text=True, timeout=4 * PATIENCE, env=environment(), cwd=folder, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return judge_all(Path(folder))


@pytest.mark.parametrize("name", list(SILENT))
def test_a_healthy_training_raises_no_alarm(told: dict[str, dict[str, Told]], name: str) -> None:
    rules = told[name]
    found = {rule: rules[rule].findings for rule in (*ALWAYS_SILENT, *SILENT[name])}
    assert found == dict.fromkeys(found, ())


@pytest.mark.parametrize("name", list(FOUND))
def test_a_fault_is_found_in_the_first_steps(told: dict[str, dict[str, Told]], name: str) -> None:
    rule, latest = FOUND[name]
    findings = told[name][rule].findings
    assert findings, told[name][rule]
    step = int(findings[0].removeprefix("step ").partition(":")[0])
    assert step <= latest, findings
