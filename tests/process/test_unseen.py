"""Trainings that call no optimizer: without visible steps the verdict is undecided, never clear."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import bare, script, watched


def test_a_run_without_visible_steps_is_undecided(tmp_path: Path) -> None:
    without = bare("unseen.py", "functional", folder=tmp_path)
    capture = ("--preset", "full", "--capture", "all:every=1")
    ended = watched(capture, script("unseen.py"), "functional", folder=tmp_path)
    assert (ended.status, ended.out) == (0, without.out)
    said = ended.show()
    assert (said["steps"], said["status"]) == ({}, "Completed")
    assert {rule["verdict"] for rule in said["rules"]} <= {"undecided", "not_applicable"}
    assert any("no training step was seen" in line for line in ended.said)


@pytest.mark.parametrize("way", ["manual", pytest.param("replaced", marks=pytest.mark.slow)])
def test_updates_without_an_optimizer_are_steps(tmp_path: Path, way: str) -> None:
    without = bare("unseen.py", way, folder=tmp_path)
    capture = ("--preset", "full", "--capture", "all:every=1")
    ended = watched(capture, script("unseen.py"), way, folder=tmp_path)
    assert (ended.status, ended.out) == (0, without.out)
    assert ended.show()["steps"] == {"train": 20}
    assert len(ended.run.tensor("gradient/weight").steps()) >= 18


@pytest.mark.parametrize("kind", ["in_place", "foreign"])
def test_a_nan_loss_stops_a_training_without_an_optimizer(tmp_path: Path, kind: str) -> None:
    ended = watched(("--on", "exploding_tensor=stop_training"), script("manual_updates.py"), kind, folder=tmp_path)
    assert ended.status == 10
    assert "came to its end" not in ended.out
    assert ended.show()["steps"]["train"] > 30
    assert ended.run.tensor_names(collection="losses") == ["mse_loss_output_0"]
