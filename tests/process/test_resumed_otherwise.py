"""What a script does not restore when its run is resumed is named by a rule, and a restored run is clear."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from false_alarms import judge
from launching import CONSOLE_SCRIPT, environment, finish, script, watched

pytestmark = pytest.mark.slow

JOB = script("resumed_otherwise.py")
NAMED = {
    "nothing": (),
    "data": (),
    "optimizer": ("the optimizer had counted no step", "Adam/lr is 0.2"),
    "schedule": ("Adam/lr is 0.2",),
    "moments": ("the norm of Adam/exp_avg_sq is 0 (at step ",),
    "weights": ("mse_loss_output_0 is",),
}
"""By what is not restored, what the finding names."""


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train for 75 steps; the checkpoint is that of step 60, and the rate was captured at step 50."""
    folder = tmp_path_factory.mktemp("interrupted")
    assert watched(("--name", "training"), JOB, "75", "nothing", folder=folder).status == 0
    return folder


@pytest.mark.parametrize("left_out", NAMED)
def test_what_is_not_restored_is_named(left_out: str, interrupted: Path, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    shutil.copytree(interrupted, folder)
    words = [CONSOLE_SCRIPT, "run", "--out", "runs", "--resume", "training", "--resume-step", "60"]
    ended = finish([*words, "--", JOB, "90", left_out], folder, env=environment())
    assert ended.status == 0, ended.err
    told = judge(folder / "runs" / "training")["resume_changed"]
    assert len(told.findings) == bool(NAMED[left_out])
    for part in ("resumed at step 60, and not as it was: ", *NAMED[left_out]):
        assert all(part in finding for finding in told.findings)
    assert [remark for remark in told.remarks if "was that of step 0: the data started over" in remark] == list(
        told.remarks
    )
    assert bool(told.remarks) is (left_out == "data")
