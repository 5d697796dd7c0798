"""``leadline check`` and ``leadline run --check`` on trainings with TensorFlow and JAX: results, and equal bits."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from launching import LEADLINE, ON_JAX, ON_TENSORFLOW, PATIENCE, environment, script

from leadline.reader.checks import read_checks

ENVIRONMENTS = Path(__file__).parents[2] / ".venvs"
KERAS = ("tensorflow", "checked_keras.py")
JAX = ("jax", "checked_jax.py")
OUTSIDE = "the step is computed outside of"

pytestmark = pytest.mark.slow


def run(framework: tuple[str, str], folder: Path, kind: str, *words: str) -> tuple[str, str]:
    """Run a training, under a command of Leadline if there are words of one; return its output and its digest."""
    python = str(ENVIRONMENTS / framework[0] / "bin" / "python")
    settings = ON_TENSORFLOW if framework is KERAS else ON_JAX
    launcher = [python, *LEADLINE[1:], *words] if words else [python]
    ended = subprocess.run(
        [*launcher, script(framework[1]), kind],
        cwd=folder,
        env=environment(TMPDIR=str(folder), **settings),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    digests = [line for line in ended.stderr.splitlines() if line.startswith("digest ")]
    assert len(digests) == 1, (ended.stdout, ended.stderr)
    return ended.stdout, digests[0]


def outcomes(output: str) -> dict[str, Any]:
    report = json.loads(output[output.index("{") :])
    return {entry["probe"]: entry for entry in report["checks"]}


@pytest.mark.parametrize(
    ("framework", "kind", "made"),
    [
        (KERAS, "fit", 9),
        (KERAS, "loop", 9),
        (JAX, "nnx", 7),
        (JAX, "linen", 7),
    ],
)
def test_a_healthy_training_passes_and_keeps_its_bits(
    tmp_path: Path, framework: tuple[str, str], kind: str, made: int
) -> None:
    _, bare = run(framework, tmp_path, kind)
    output, digest = run(framework, tmp_path, kind, "check", "--json", "--continue")
    assert digest == bare
    found = {probe: entry["outcome"] for probe, entry in outcomes(output).items()}
    assert "failed" not in found.values(), output
    assert list(found.values()).count("passed") == made, output


@pytest.mark.parametrize("framework", [KERAS, JAX])
def test_beside_a_training_all_bits_stay(tmp_path: Path, framework: tuple[str, str]) -> None:
    kind = "fit" if framework is KERAS else "linen"
    _, bare = run(framework, tmp_path, kind)
    _, digest = run(framework, tmp_path, kind, "run", "--out", "runs", "--check", "--no-default-rules", "--")
    assert digest == bare
    (folder,) = (tmp_path / "runs").iterdir()
    ((_, results),) = read_checks(str(folder)).items()
    assert "failed" not in {result.outcome for result in results}
    assert "passed" in {result.outcome for result in results}


@pytest.mark.parametrize("framework", [KERAS, JAX])
def test_a_step_outside_of_a_compiled_function_says_why(tmp_path: Path, framework: tuple[str, str]) -> None:
    output, _ = run(framework, tmp_path, "eager", "check", "--json", "--continue")
    found = outcomes(output)
    assert {entry["outcome"] for entry in found.values()} == {"not applicable"}
    assert all(entry["message"].startswith(OUTSIDE) for entry in found.values())
