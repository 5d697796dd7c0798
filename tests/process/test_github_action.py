"""The action of GitHub Actions: its steps, run by bash as a runner does, on a faulty and on a healthy training."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from launching import PATIENCE, environment

ROOT = Path(__file__).parents[2]
TRAINING = """
import torch

torch.manual_seed(0)
x = torch.randn(512, 8)
y = x @ torch.randn(8, 1)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), {rate})
for step in range(80):
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

pytestmark = pytest.mark.slow


def ran(folder: Path, **inputs: str) -> tuple[int, str, str, dict[str, str]]:
    """Run the steps of the action; return the last status, what was printed, the summary and the outputs."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    values = {name: str(given.get("default", "")) for name, given in action["inputs"].items()} | inputs
    outputs, summary = folder / "outputs", folder / "summary.md"
    outputs.touch()
    summary.touch()
    env = environment(
        PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        RUNNER_TEMP=str(folder),
        GITHUB_OUTPUT=str(outputs),
        GITHUB_STEP_SUMMARY=str(summary),
        GITHUB_ACTION_PATH=str(ROOT),
    )
    printed, status = "", 0
    for step in action["runs"]["steps"]:
        if "run" not in step or step["name"] == "Install":
            continue
        known = dict(line.split("=", 1) for line in outputs.read_text().splitlines())
        variables = {name: filled(text, values, known) for name, text in step["env"].items()}
        ended = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=folder,
            env=env | variables,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        printed, status = printed + ended.stdout + ended.stderr, ended.returncode
        if status:
            break
    return status, printed, summary.read_text(), dict(line.split("=", 1) for line in outputs.read_text().splitlines())


def filled(text: str, inputs: dict[str, str], outputs: dict[str, str]) -> str:
    """Return a text with the expressions of the runner replaced."""

    def value(match: re.Match[str]) -> str:
        kind, *_, name = match[1].strip().split(".")
        return (inputs if kind == "inputs" else outputs)[name]

    return re.sub(r"\$\{\{(.*?)\}\}", value, text)


def test_a_faulty_training_fails_the_job_and_is_explained_in_the_summary(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING.format(rate=1e6))
    status, printed, summary, outputs = ran(tmp_path, command="python train.py")
    assert status == 1, printed
    assert outputs["verdict"] == "problem"
    assert summary.startswith("### problem · training-")
    assert "| exploding\\_tensor |" in summary
    assert "::warning title=Leadline::" in printed
    assert (tmp_path / "training-report.html").stat().st_size > 10_000


def test_a_healthy_training_passes_and_a_broken_one_does_not(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING.format(rate=0.05))
    status, printed, summary, outputs = ran(tmp_path, command="python train.py")
    assert (status, outputs["verdict"] in ("ok", "advice")) == (0, True), (printed, summary)
    (tmp_path / "train.py").write_text(TRAINING.format(rate=0.05) + "raise SystemExit(3)\n")
    assert ran(tmp_path, command="python train.py")[0] == 1


@pytest.mark.parametrize(
    ("word", "fail_on", "status", "expected"),
    [
        ("● advice", "problem", "0", 0),
        ("● advice", "advice", "0", 1),
        ("■ stopped", "problem", "10", 1),
        ("▲ problem", "never", "0", 0),
        ("✓ ok", "problem", "3", 1),
        ("✓ ok", "sometimes", "0", 2),
    ],
)
def test_what_fails_a_job(word: str, fail_on: str, status: str, expected: int, tmp_path: Path) -> None:
    shown: dict[str, Any] = {"name": "a<b>_c", "outcome": {"word": word, "text": "loss | fell"}, "rules": []}
    ended = subprocess.run(
        [sys.executable, str(ROOT / "integrations" / "github-action" / "summarize.py"), status, fail_on],
        input=json.dumps(shown),
        env=environment(GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md")),
        capture_output=True,
        text=True,
    )
    assert ended.returncode == expected
    if expected != 2:
        assert "a&lt;b>\\_c" in (tmp_path / "summary.md").read_text()
        assert "loss \\| fell" in (tmp_path / "summary.md").read_text()
