"""Early stopping that watches the training data, or nothing, is named: the training that did not stop on chance."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import LEADLINE, environment, finish, script

PYTHON = str(Path(__file__).parents[2] / ".venvs" / "trees" / "bin" / "python")
ROUNDS = 20
CHECKS = {"xgboost": "watched_training_set", "lightgbm": "unwatched_training_set"}
REMARKS = {
    "xgboost": "early stopping watches validation_1, which is the training data",
    "lightgbm": "LightGBM leaves the training data (parameter) out of it",
}

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("library", CHECKS)
def test_a_training_that_cannot_stop_is_named(tmp_path: Path, library: str) -> None:
    words = [PYTHON, *LEADLINE[1:], "run", "--out", str(tmp_path / "runs"), "--budget", "off", "--"]
    ended = finish([*words, PYTHON, script("stopping_sets.py"), library], tmp_path, env=environment())
    assert ended.status == 0, ended.err
    lines = (line.split() for line in ended.out.splitlines())
    rounds = {line[0]: int(line[1]) for line in lines if len(line) == 2}
    never_stopped = {name for name, count in rounds.items() if count == ROUNDS}
    named = {name for name in rounds if ended.run.scalars(f"{name}/{CHECKS[library]}").to_pylist()}
    assert named == never_stopped
    assert len(rounds) > len(named) > 1
    assert [REMARKS[library] in remark for remark in ended.show()["outcome"]["remarks"]].count(True) == 1
