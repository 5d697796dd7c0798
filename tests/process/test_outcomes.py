"""The outcome of real trainings: the same line in the terminal, ``show``, ``ls`` and the notification of the end."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from launching import LEADLINE, PATIENCE, Ended, environment, finish, script, started, wait_for, watched

NOTICE = ("--on", "job=run_command:cat > notice.json")
PARTS = r" in values[\w, ]*"
NO_PROBLEM = rf"no problem found{PARTS}(, 1 piece of advice)? \(\d+ rules clear.*\)(; [\w -]+: .*|; too little .*)?\..*"
BOUND = r"(, |; [a-z]+-bound: .*?; )"
"""Advice on the time stands before: a short training may be bound by what a busy machine makes slow."""
PYTHON_OF_TREES = str(Path(__file__).parents[2] / ".venvs" / "trees" / "bin" / "python")


def check_outcome(ended: Ended, pattern: str) -> None:
    """Check that the outcome matches a pattern and is the same line everywhere."""
    shown = ended.show()["outcome"]
    line = shown["text"]
    assert re.fullmatch(pattern, line), line
    assert line in " ".join(ended.err.split())
    listed = subprocess.run(
        [*LEADLINE, "ls", str(ended.root), "--json"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert [run["outcome"] for run in json.loads(listed.stdout)] == [shown]
    notice = json.loads((ended.root.parent / "notice.json").read_text())
    assert (notice["kind"], notice["message"]) == ("job_status", line)


def test_a_healthy_training(tmp_path: Path) -> None:
    ended = watched(NOTICE, script("ending.py"), "healthy", folder=tmp_path)
    check_outcome(ended, rf"Completed: 120 steps{BOUND}{NO_PROBLEM}")


def test_a_training_that_a_rule_stopped(tmp_path: Path) -> None:
    options = (*NOTICE, "--on", "exploding_tensor=stop_training")
    ended = watched(options, script("exploding.py"), "loss", "37", folder=tmp_path)
    assert ended.status == 10
    check_outcome(ended, r"Stopped at step \d+ by exploding_tensor: loss is NaN.* \(found at step 37\)\..* Try: .*")


@pytest.mark.slow
def test_a_script_that_raised(tmp_path: Path) -> None:
    ended = watched(NOTICE, script("ending.py"), "raises", folder=tmp_path)
    assert ended.status == 1
    check_outcome(ended, r"Failed with exit status 1 at step 37: ValueError: no more batches; no .*")


@pytest.mark.slow
def test_a_training_that_was_stopped_by_hand(tmp_path: Path) -> None:
    with started(NOTICE, script("ending.py"), "endless", folder=tmp_path) as job:
        wait_for(lambda: job.flushed_steps() > 20, "steps")
        (run,) = (tmp_path / "runs").iterdir()
        subprocess.run([*LEADLINE, "stop", str(run)], env=environment(), timeout=PATIENCE, check=False)
        ended = job.wait()
    assert ended.status == 10
    check_outcome(ended, r"Stopped at step \d+ by hand; ([a-z]+-bound: .*; )?no .*")


@pytest.mark.slow
def test_a_training_that_waits_for_its_data(tmp_path: Path) -> None:
    ended = watched(NOTICE, script("bound.py"), "loader", folder=tmp_path)
    check_outcome(
        ended, rf"Completed: 90 steps; input-bound: .*; no problem found{PARTS} \(.*\).*\. Try: .*num_workers.*"
    )


@pytest.mark.slow
def test_a_training_of_boosted_trees(tmp_path: Path) -> None:
    words = [PYTHON_OF_TREES, *LEADLINE[1:], "run", "--out", str(tmp_path / "runs"), "--budget", "off", *NOTICE, "--"]
    words += [PYTHON_OF_TREES, script("boosters.py"), str(tmp_path), "binary"]
    ended = finish(words, tmp_path, env=environment())
    assert ended.status == 0, ended.err
    check_outcome(ended, rf"Completed: \d+ steps{BOUND}{NO_PROBLEM}")
