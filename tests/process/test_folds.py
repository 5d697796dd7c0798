"""Several trainings in one process: rules start over at each, and every surface says how many.

A stop by any rule that fires would end these healthy folds, stages and boosters.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from launching import MXNET, ON_JAX, ON_TENSORFLOW, command, environment, finish, needs_mxnet, script

VENVS = Path(MXNET).parents[2]
PYTHONS = {
    "torch": sys.executable,
    "keras": str(VENVS / "tensorflow" / "bin" / "python"),
    "jax": str(VENVS / "jax" / "bin" / "python"),
    "jax_stages": str(VENVS / "jax" / "bin" / "python"),
    "mxnet": MXNET,
    "xgboost": str(VENVS / "trees" / "bin" / "python"),
}
VARIABLES = {"keras": ON_TENSORFLOW, "jax": ON_JAX, "jax_stages": ON_JAX}

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=needs_mxnet if name == "mxnet" else ()) for name in PYTHONS]
)
def test_healthy_trainings_in_one_process_run_to_their_end(framework: str, tmp_path: Path) -> None:
    job = (PYTHONS[framework], script("folds.py"), framework)
    words = [PYTHONS[framework], *command(("--on", "*=stop_training"), *job, root=tmp_path)[1:]]
    ended = finish(words, tmp_path, env=environment(**VARIABLES.get(framework, {})))
    assert ended.status == 0, ended.err
    *begins, steps = json.loads(ended.lines[-1])
    run, count = ended.run, len(begins)
    assert run.findings().to_pylist() == []
    assert run.trainings() == tuple(begins)
    assert any(f"Completed: {steps} steps in {count} trainings" in line for line in ended.said), ended.said
    assert ended.show()["trainings"] == list(run.trainings())
