"""A function that is traced at each step is one training: its steps count, and nothing is compiled for it each time."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import LEADLINE, environment, finish, only_run, script

VENVS = Path(__file__).parents[2] / ".venvs"
STEPS = 12

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("framework", "most_traces"), [("jax", STEPS), ("tensorflow", STEPS + 3)])
def test_each_step_of_a_function_that_is_traced_again_and_again_counts(
    tmp_path: Path, framework: str, most_traces: int
) -> None:
    job = [str(VENVS / framework / "bin" / "python"), script("traced_in_loop.py"), framework]
    bare = finish(job, tmp_path, env=environment())
    watched = finish([*LEADLINE, "run", "--out", str(tmp_path / "runs"), "--", *job], tmp_path, env=environment())
    assert (bare.status, watched.status) == (0, 0), (bare.err, watched.err)
    (expected,) = [line.split() for line in bare.out.splitlines() if line.startswith("RESULT")]
    (found,) = [line.split() for line in watched.out.splitlines() if line.startswith("RESULT")]
    assert found[:3] == expected[:3]
    assert int(expected[3]) == STEPS <= int(found[3]) <= most_traces
    run = only_run(tmp_path / "runs")
    assert run.steps() == list(range(STEPS))
    assert len(run.tensor("loss").steps()) == STEPS
    (worker,) = run.worker_documents().values()
    (note,) = [note for note in worker.notes if "traced again and again" in note]
    assert "are not captured" in note
    gradient = run.tensor(run.tensor_names("gradients")[0])
    assert 1 <= len(gradient.steps()) <= 3
    compilations = [event for event in run.timeline().to_pylist() if event["name"] == "compile"]
    assert {event["step"] for event in compilations} <= {0, 1, 2}
    assert "of it to compile capture programs" in " ".join(watched.err.split())
