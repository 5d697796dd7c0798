"""An unmodified script whose loss becomes NaN: the fault is found at its step and the training is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from launching import bare, rule, script, show, wait_for, watched

from leadline.records.names import JOB_ENDED

STOP = ("--on", "exploding_tensor=stop_training")


def check_stopped(said: dict[str, Any], *, bad_step: int) -> dict[str, Any]:
    """Check a run that was stopped by the rule; return the finding."""
    assert (said["status"], said["stopped_by"]) == ("Stopped", "rule:exploding_tensor")
    found = rule(said, "exploding_tensor")
    assert (found["status"], found["verdict"]) == ("IssuesFound", "fired")
    first = dict(found["findings"][0])
    assert first["step"] == bad_step
    (action,) = said["actions"]
    assert (action["rule"], action["action"].partition(":")[0]) == ("exploding_tensor", "stop_training")
    assert action["step"] > bad_step
    assert said["steps"]["train"] > bad_step
    assert said["steps"]["train"] < 5000
    return first


@pytest.mark.parametrize("bad_step", [0, 37])
def test_a_loss_that_becomes_nan_stops_the_job(tmp_path: Path, bad_step: int) -> None:
    ended = watched(STOP, script("exploding.py"), "loss", str(bad_step), folder=tmp_path)
    assert ended.status == 10
    assert ended.out == ""
    finding = check_stopped(ended.show(), bad_step=bad_step)
    gradients = {"gradient/0.weight", "gradient/0.bias", "gradient/2.weight", "gradient/2.bias"}
    assert set(finding["tensors"]) == {"loss", "gradient_norm"} | gradients
    assert finding["tensors"][0] == "loss"
    assert finding["message"].startswith("loss is NaN")
    assert any(f"step {bad_step}  exploding_tensor: loss is NaN" in line for line in ended.said)
    assert any("leadline  Stopped at step " in line and " by exploding_tensor: " in line for line in ended.said)
    assert "Traceback" not in ended.err


def test_a_nan_in_a_single_gradient_is_found_before_the_loss_is_affected(tmp_path: Path) -> None:
    ended = watched(STOP, script("exploding.py"), "gradient", "23", folder=tmp_path)
    assert ended.status == 10
    finding = check_stopped(ended.show(), bad_step=23)
    assert finding["tensors"] == ["gradient/2.weight"]
    assert finding["evidence"]["nan_count"] == 1
    assert finding["message"] == "2.weight (linear): 1 of 16 gradients is NaN"


def test_watch_in_the_script_stops_the_training_without_a_launcher(tmp_path: Path) -> None:
    ended = bare("exploding.py", "loss", "37", "--watch", folder=tmp_path)
    assert ended.status == 10
    (run,) = ended.lines
    said = wait_for(lambda: (found := show(run)) and found["status"] in JOB_ENDED and found, "the end of the run")
    finding = check_stopped(said, bad_step=37)
    assert finding["tensors"][0] == "loss"
    assert len(finding["tensors"]) == 5


def test_a_script_that_ignores_the_stop_exception_is_ended_by_signals(tmp_path: Path) -> None:
    ended = watched(
        ("--on", "exploding_tensor=stop_training:grace=1"), script("exploding.py"), "stubborn", "20", folder=tmp_path
    )
    assert (ended.status, ended.out) == (10, "")
    check_stopped(ended.show(), bad_step=20)
    assert any(
        "still running 1.0 s after the stop request: sending SIGTERM to 1 process" in line for line in ended.said
    )


@pytest.mark.slow
@pytest.mark.parametrize(("way", "out"), [("retry", ""), ("cleanup", "finally\nat exit\n"), ("thread", "")])
def test_the_stop_works_in_every_kind_of_training_loop(tmp_path: Path, way: str, out: str) -> None:
    """A loop that retries after every exception, one that cleans up, and one in a thread that its process outlives."""
    grace = 1 if way == "thread" else 60
    ended = watched(
        ("--on", f"exploding_tensor=stop_training:grace={grace}"), script("exploding.py"), way, "20", folder=tmp_path
    )
    assert (ended.status, ended.out) == (10, out)
    check_stopped(ended.show(), bad_step=20)
    assert any("SIGTERM" in line for line in ended.said) == (way == "thread")
    assert ("Traceback" in ended.err) == (
        way == "thread"
    )  # the message of Python for a thread that ends with an exception
