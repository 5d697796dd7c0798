"""Runs of other frameworks than PyTorch are resumed at the step that the loaded checkpoint has counted, if it has."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import LEADLINE, MXNET, environment, finish, needs_mxnet, only_run, script, watched

VENVS = Path(__file__).parents[2] / ".venvs"

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("framework", "venv"),
    [
        ("keras", "tensorflow"),
        ("optax", "jax"),
        pytest.param("mxnet", "mxnet", marks=needs_mxnet),
        ("xgboost", "trees"),
        ("lightgbm", "trees"),
    ],
)
def test_a_run_continues_where_its_checkpoint_was_saved(tmp_path: Path, framework: str, venv: str) -> None:
    python = MXNET if framework == "mxnet" else str(VENVS / venv / "bin" / "python")
    job = (python, script("resumed_kinds.py"), framework, str(tmp_path))
    killed = watched(("--name", "kind", "--no-default-rules"), *job, folder=tmp_path)
    assert killed.status == 137, killed.err
    words = [*LEADLINE, "run", "--out", str(tmp_path / "runs"), "--resume", "kind", "--", *job]
    resumed = finish(words, tmp_path, env=environment())
    assert resumed.status == 0, resumed.err
    run = only_run(tmp_path / "runs")
    assert [interruption.resumed_step for interruption in run.interruptions()] == [7]
    assert run.steps() == sorted(set(run.steps()))
    (worker,) = run.worker_documents().values()
    assert worker.steps["train"] == 20
    assert not [note for note in worker.notes if "resumed" in note]


@pytest.mark.parametrize(("framework", "venv"), [("optax", "jax"), ("xgboost", "trees")])
def test_a_training_that_starts_over_hides_no_step(tmp_path: Path, framework: str, venv: str) -> None:
    job = (str(VENVS / venv / "bin" / "python"), script("resumed_kinds.py"), framework, str(tmp_path))
    assert watched(("--name", "kind", "--no-default-rules"), *job, folder=tmp_path).status == 137
    for checkpoint in tmp_path.glob("*.checkpoint*"):
        checkpoint.unlink()
    words = [*LEADLINE, "run", "--out", str(tmp_path / "runs"), "--resume", "kind", "--", *job]
    resumed = finish(words, tmp_path, env=environment())
    run = only_run(tmp_path / "runs")
    (interruption,) = run.interruptions()
    assert interruption.has_new_state
    assert interruption.resumed_step == interruption.steps > 7
    assert f"resumed at step {interruption.steps}: the optimizer state was not restored" in resumed.err
    assert run.steps() == list(range(run.steps()[-1] + 1))
    assert len(run.steps()) > interruption.steps + 7
