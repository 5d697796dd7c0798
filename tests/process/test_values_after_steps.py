"""What a script logs after a step is of the step that ran, in every framework.

For PyTorch see ``tests/unit/training/recorder/test_steps_of_values.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import MXNET, needs_mxnet, script, watched

VENVS = Path(MXNET).parents[2]
STEPS = 6
VENV_OF = {"keras": "tensorflow", "tape": "tensorflow", "jax": "jax", "mxnet": "mxnet"}
VENV_OF |= {"xgboost": "trees", "lightgbm": "trees"}

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=needs_mxnet if name == "mxnet" else ()) for name in VENV_OF]
)
def test_what_follows_a_step_is_of_the_step_that_ran(framework: str, tmp_path: Path) -> None:
    python = str(VENVS / VENV_OF[framework] / "bin" / "python")
    options = ("--no-default-rules", "--preset", "light")
    job = (python, script("logged_after_steps.py"), framework)
    ended = watched(options, *job, folder=tmp_path, TF_CPP_MIN_LOG_LEVEL="3")
    assert ended.status == 0, ended.err
    run = ended.run
    (worker,) = run.worker_documents().values()
    assert (worker.off, worker.steps) == (None, {"train": STEPS})

    def steps(name: str) -> dict[int, float]:
        return {row["step"]: row["value"] for row in run.scalars(name).to_pylist()}

    assert steps("after") == {step: step for step in range(STEPS)}
    if framework == "keras":
        assert (steps("begun"), steps("ahead"), steps("epoch")) == ({0: 0, 3: 1}, {4: 4}, {2: 0, 5: 1})
    else:
        assert steps("end") == {5: 1}
    assert max(run.steps()) == STEPS - 1
