"""Rules and captures of a running job: added, removed, and captured less often, with what the job answers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from launching import LEADLINE, PATIENCE, Running, environment, script, show, started, wait_for

import leadline

LIGHT = ("--preset", "light", "--no-default-rules", "--rule", "exploding_tensor")


def call(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LEADLINE, *words],
        cwd=root,
        env=environment(LEADLINE_ROOT=str(root / "runs")),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def rule(running: Running, name: str) -> dict[str, Any]:
    (path,) = (running.folder / "runs").iterdir()
    return next((rule for rule in show(path)["rules"] if rule["name"] == name), {})


@pytest.mark.slow
def test_rules_and_captures_of_a_running_job_change(tmp_path: Path) -> None:
    end = tmp_path / "end"
    with started(LIGHT, script("until.py"), str(end), folder=tmp_path) as running:
        wait_for(lambda: running.flushed_steps() > 3, "steps")
        done = call(tmp_path, "set", "rule=small=vanishing_gradient:threshold=1000000.0")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "accepted by judge" in done.stdout
        assert "also captures abs_mean of gradients" in done.stdout
        again = call(tmp_path, "set", "rule=small=vanishing_gradient")
        assert again.returncode == 2
        assert "already has a rule named 'small'" in again.stderr
        wait_for(lambda: rule(running, "small").get("status") == "IssuesFound", "a finding of the new rule")
        added = call(tmp_path, "set", "rule=calm=dead_relu")
        assert added.returncode == 0, added.stdout + added.stderr
        removed = call(tmp_path, "set", "rule=-small", "rule=-calm")
        assert removed.returncode == 0, removed.stdout + removed.stderr
        assert "no longer captures abs_mean of gradients" in removed.stdout
        wait_for(lambda: rule(running, "calm").get("status") == "Stopped", "the end of a rule without findings")
        assert rule(running, "calm")["why"].startswith("removed at step ")
        lowered = call(tmp_path, "set", "capture=losses:every=20")
        assert lowered.returncode == 0, lowered.stdout + lowered.stderr
        assert "captures losses every 20 steps" in lowered.stdout
        (loss,) = (tmp_path / "runs").iterdir()
        since = leadline.open_run(loss).tensor("loss").steps()[-1] + 1
        wait_for(lambda: leadline.open_run(loss).tensor("loss").steps()[-1] >= since + 40, "losses at later steps")
        end.touch()
        ended = running.wait()
    assert ended.status == 0, ended.err
    live = {rule["name"]: (rule["status"], rule["verdict"], rule["findings"]) for rule in ended.show()["rules"]}
    assert set(live) == {"exploding_tensor", "small", "calm"}
    assert (live["small"][0], live["calm"][0]) == ("IssuesFound", "Stopped"), "what a removed rule found is kept"
    sparse = [step for step in ended.run.tensor("loss").steps() if step > since]
    assert len(sparse) >= 2
    assert all(step % 20 == 0 for step in sparse)
    judged = call(tmp_path, "judge", str(ended.run.uri), "--json")
    rules = {rule["name"] for run in json.loads(judged.stdout) for rule in run["rules"]}
    assert rules == {"exploding_tensor"}, "afterwards removed rules are not evaluated again"
    run = leadline.open_run(ended.run.uri)
    assert any(name.startswith("gradient/") for name in run.tensor_names())


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("rule=vanishing_gradien", "did you mean 'vanishing_gradient'?"),
        ("rule=vanishing_gradient:treshold=1", "did you mean 'threshold'?"),
        ("rule=vanishing_gradient:threshold=-1", "threshold"),
        ("rule=", "--rule"),
        ("rule=-exploding_tenso", "did you mean 'exploding_tensor'?"),
        ("capture=gradient:every=5", "did you mean 'gradients'?"),
        ("capture=-trees", "no captured collection named 'trees'"),
    ],
)
@pytest.mark.slow
def test_an_invalid_rule_is_reported_in_one_line_and_sends_no_request(tmp_path: Path, word: str, said: str) -> None:
    with started(LIGHT, "sh", "-c", "sleep 600", folder=tmp_path):
        wait_for(lambda: list((tmp_path / "runs").glob("*/status.json")), "a run")
        done = call(tmp_path, "set", word)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list((tmp_path / "runs").glob("*/control/*.json"))
