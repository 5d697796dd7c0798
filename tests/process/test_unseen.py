"""A training without visible steps: unchanged, and the verdict is undecided, never clear."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import bare, script, watched


@pytest.mark.parametrize("way", ["manual", "functional", "replaced"])
def test_a_run_without_visible_steps_is_undecided(tmp_path: Path, way: str) -> None:
    without = bare("unseen.py", way, folder=tmp_path)
    ended = watched(("--preset", "full", "--capture", "all:every=1"), script("unseen.py"), way, folder=tmp_path)
    assert (ended.status, ended.out) == (0, without.out)
    said = ended.show()
    assert (said["steps"], said["status"]) == ({}, "Completed")
    assert {rule["verdict"] for rule in said["rules"]} <= {"undecided", "not_applicable"}
    assert any("no training step was seen" in line for line in ended.said)
