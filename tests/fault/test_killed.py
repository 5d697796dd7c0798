"""kill -9 of any process: training ends normally and stays bit-identical, and flushed data can be read."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from launching import (
    LEADLINE,
    PATIENCE,
    Ended,
    Running,
    bare,
    end,
    environment,
    losses,
    script,
    show,
    started,
    wait_for,
)

from leadline.rules.registry import DEFAULT

pytestmark = pytest.mark.slow

PAUSED = ("--pause-at", "50")
RAW = ("--capture", "all:every=1", "--capture", "all:every=1,raw=true")

NOT_CLEAR = {
    "straggler",
    "duplicate_batches",
    "replica_divergence",
    "gpu_throttling",
    "no_split",
    "rising_validation_loss",
    "generalization_gap",
    "shared_samples",
    "validation_mismatch",
    "broken_metric",
    "dead_groups",
    "entropy_collapse",
    "rising_entropy",
    "reward_fall",
    "truncated_completions",
    "broken_averages",
    "recompilation",
    "resume_changed",
    "kl_divergence",
    "policy_mismatch",
}
"""Default rules that need several ranks, a GPU, boosted trees, a validation or batch normalization."""


@pytest.fixture(scope="module")
def unwatched(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return bare("healthy.py", folder=tmp_path_factory.mktemp("bare"))


def wait_until_paused(folder: Path) -> None:
    wait_for((folder / "paused").exists, "the pause")


def go_on(folder: Path) -> None:
    (folder / "go").touch()


def kill_in_the_pause(running: Running, module: str) -> tuple[int, Ended]:
    """Kill the process that runs a module half-way through the training; return its pid and the finished command."""
    wait_until_paused(running.folder)
    victim = running.process_of(module)
    end(victim)
    go_on(running.folder)
    return victim, running.wait()


def test_the_agent_is_killed(tmp_path: Path, unwatched: Ended) -> None:
    with started(RAW, script("healthy.py"), *PAUSED, folder=tmp_path) as running:
        wait_until_paused(tmp_path)
        running.job()
        end(running.agent)
        go_on(tmp_path)
        ended = running.wait()
    assert ended.status == -9
    assert ended.out == unwatched.out
    said = wait_for(lambda: (found := show(ended.run.path))["status"] == "Completed" and found, "the end of the run")
    assert said["steps"] == {"train": 300}
    assert ended.run.verify() == []
    assert sorted(losses(ended.run)) == list(range(300))
    assert "Traceback" not in ended.err
    # the judge continued without the agent and finished
    rules = wait_for(lambda: (found := show(ended.run.path)["rules"]) and done(found) and found, "the verdicts")
    assert {rule["status"] for rule in rules} == {"NoIssuesFound"}


def check_clear(said: dict[str, Any]) -> None:
    """Check that all rules are clear, except those that need several ranks or a GPU."""
    assert [rule["name"] for rule in said["rules"]] == list(DEFAULT)
    assert {rule["status"] for rule in said["rules"]} == {"NoIssuesFound"}
    assert {rule["name"] for rule in said["rules"] if rule["verdict"] != "clear"} <= NOT_CLEAR


def done(rules: list[dict[str, str]]) -> bool:
    return all(rule["status"] not in ("InProgress", "Starting") for rule in rules)


def test_the_judge_is_killed(tmp_path: Path, unwatched: Ended) -> None:
    with started(RAW, script("healthy.py"), *PAUSED, "--spike-at", "20", folder=tmp_path) as running:
        victim, ended = kill_in_the_pause(running, "leadline.judge")
    expected = bare("healthy.py", "--spike-at", "20", folder=tmp_path)
    assert (ended.status, ended.out) == (0, expected.out)
    assert any("the judge exited unexpectedly (signal 9); restarting it" in line for line in ended.said)
    said = ended.show()
    assert said["status"] == "Completed"
    check_clear(said)
    summary = json.loads(Path(ended.run.path, "rules", "summary.json").read_text())
    assert summary["complete"]
    assert summary["judged_step"] == 299
    assert not Path(f"/proc/{victim}").exists()


def test_a_rule_worker_is_killed(tmp_path: Path, unwatched: Ended) -> None:
    with started(RAW, script("healthy.py"), *PAUSED, folder=tmp_path) as running:
        _, ended = kill_in_the_pause(running, "leadline.judge.rule_worker")
    assert (ended.status, ended.out) == (0, unwatched.out)
    said = ended.show()
    check_clear(said)
    assert "Traceback" not in ended.err


def test_the_training_is_killed_in_a_pause(tmp_path: Path) -> None:
    """Everything up to the last flush is kept."""
    with started(RAW, script("healthy.py"), *PAUSED, folder=tmp_path) as running:
        wait_until_paused(tmp_path)
        wait_for(lambda: running.flushed_steps() == 50, "the report of the last step before the pause")
        wait_for(
            lambda: running.has_recorded(50, "0.weight", "gradient/3.bias"),
            "the flush of the last step before the pause",
        )
        end(running.job())
        ended = running.wait()
    assert ended.status == 128 + 9
    check_failed(ended)
    run = ended.run
    assert sorted(losses(run)) == list(range(50))
    for name in ("0.weight", "gradient/3.bias"):
        assert [run.tensor(name).value(step).size for step in range(50)] == [{"0.weight": 512}.get(name, 4)] * 50


def test_the_training_is_killed_at_full_speed(tmp_path: Path) -> None:
    options = ("--steps", "100000", "--width", "256", "--sleep", "0.002")
    with started(RAW, script("healthy.py"), *options, folder=tmp_path) as running:
        wait_for(lambda: list(tmp_path.glob("runs/*/tensors/*/000003.safetensors")), "stored tensors")
        end(running.job())
        ended = running.wait()
    assert ended.status == 128 + 9
    check_failed(ended)
    run = ended.run
    steps = sorted(losses(run))
    assert steps == list(range(len(steps)))
    assert len(steps) > 1
    stored = [step for step in steps if step in set(run.tensor("0.weight").steps())]
    assert run.tensor("0.weight").value(stored[0]).shape == (256, 16)


def check_failed(ended: Ended) -> None:
    said = ended.show()
    assert (said["status"], said["exit_status"]) == ("Failed", 128 + 9)
    assert said["damage"] == []
    assert any("Failed with exit status 137 (SIGKILL) at step " in line for line in ended.said)
    verified = subprocess.run(
        [*LEADLINE, "show", "--verify", ended.run.path],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (verified.returncode, verified.stderr) == (0, "")
    assert "no damage found" in verified.stdout
    (node,) = (json.loads(path.read_text()) for path in Path(ended.run.path, "nodes").iterdir())
    assert len(node["gone"]) == 1
