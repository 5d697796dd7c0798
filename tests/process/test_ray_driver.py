"""What a driver of Ray logs is captured and judged, beside the actor that trains."""

from __future__ import annotations

from pathlib import Path

import pytest
from judged_runs import judge
from launching import command, environment, finish, script

import leadline

pytestmark = pytest.mark.slow

PYTHON = str(Path(__file__).parents[2] / ".venvs" / "ray" / "bin" / "python")
PATIENT = {"RAY_raylet_start_wait_time_s": "280"}
"""Ray's own limit for its start, which a busy machine exceeds."""
ROWS, UPDATES = 90, 4


@pytest.mark.parametrize("words", [(), ("falls",)], ids=["healthy", "falls"])
def test_metrics_of_a_driver_are_judged_by_their_roles(words: tuple[str, ...], tmp_path: Path) -> None:
    started = [PYTHON, *command(("--name", "driven"), script("ray_driver.py"), *words, root=tmp_path)[1:]]
    ended = finish(started, tmp_path, env=environment(**PATIENT))
    assert ended.status in (0, 10), ended.err
    (run,) = (path.parent for path in tmp_path.rglob("manifest.json"))
    rewards = leadline.open_run(run).scalars("critic/score/mean").to_pylist()
    assert len(rewards) == ROWS
    assert {row["mode"] for row in rewards} == {"global"}
    steps = [row["step"] for row in rewards]
    assert steps == sorted(set(steps))
    assert steps[-1] <= ROWS * UPDATES
    told = judge(run)
    assert bool(told["reward_fall"].findings) is bool(words)
    assert all(finding.startswith("step ") for finding in told["reward_fall"].findings)
    assert {name for name, rule in told.items() if rule.findings} <= {"reward_fall"}
