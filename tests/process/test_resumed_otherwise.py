"""What a script does not restore when its run is resumed is named by a rule, and a restored run is clear."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from launching import CONSOLE_SCRIPT, environment, finish, rule, script, show, watched

pytestmark = pytest.mark.slow

JOB = script("resumed_otherwise.py")
NAMED = {
    "nothing": (),
    "data": (),
    "optimizer": ("the optimizer had counted no step", "Adam/lr is 0.2"),
    "schedule": ("Adam/lr is 0.2",),
    "weights": ("mse_loss_output_0 is",),
}
"""By what is not restored, what the finding names."""


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train for 50 steps; the checkpoint is that of step 40."""
    folder = tmp_path_factory.mktemp("interrupted")
    assert watched(("--name", "training"), JOB, "50", "nothing", folder=folder).status == 0
    return folder


@pytest.mark.parametrize("left_out", NAMED)
def test_what_is_not_restored_is_named(left_out: str, interrupted: Path, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    shutil.copytree(interrupted, folder)
    words = [CONSOLE_SCRIPT, "run", "--out", "runs", "--resume", "training", "--resume-step", "40"]
    ended = finish([*words, "--", JOB, "70", left_out], folder, env=environment())
    assert ended.status == 0, ended.err
    told = rule(show(folder / "runs" / "training"), "resume_changed")
    messages = [finding["message"] for finding in told["findings"]]
    for part in NAMED[left_out]:
        assert part in messages[0]
    assert len(messages) == bool(NAMED[left_out])
    assert all(message.startswith("resumed at step 40, and not as it was: ") for message in messages)
    remarks = told.get("remarks") or []
    assert bool(remarks) is (left_out == "data")
