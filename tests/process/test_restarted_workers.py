"""Workers that torchrun starts again continue the run of their job: ``--max-restarts``, on gloo."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from launching import losses, script, show, watched

from leadline.store.run_state import read_status

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
OPTIONS = ("--capture", "weights:every=3,raw=true", "--rule", "loss_not_decreasing")


@pytest.mark.slow
def test_a_restarted_worker_group_continues_without_repeated_steps(tmp_path: Path) -> None:
    calm, hurt = tmp_path / "calm", tmp_path / "hurt"
    for folder in (calm, hurt):
        folder.mkdir()
    words = (*TORCHRUN, "--max-restarts", "1", script("restarted.py"))
    whole = watched(OPTIONS, *words, "-1", folder=calm)
    ended = watched(OPTIONS, *words, "17", folder=hurt)
    assert (whole.status, ended.status) == (0, 0), ended.err
    run, expected = ended.run, whole.run
    assert run.steps() == expected.steps() == list(range(30))
    assert len(run.workers()) == 2
    (loss,) = run.tensor_names(collection="losses")
    for rank in (0, 1):
        (worker,) = (name for name in run.workers() if name.startswith(f"rank{rank}-"))
        (other,) = (name for name in expected.workers() if name.startswith(f"rank{rank}-"))
        rows = [row for row in run.scalars(loss).to_pylist() if row["worker"] == worker]
        assert [row["step"] for row in rows] == list(range(30)), "no step twice"
        assert losses(run, worker=worker) == losses(expected, worker=other), "those of an uninterrupted training"
    (tensor,) = (name for name in run.tensor_names(collection="weights") if name.endswith("weight"))
    stored = run.tensor(tensor).steps()
    assert stored == expected.tensor(tensor).steps()
    (interruption,) = run.interruptions()
    assert (interruption.status, interruption.steps, interruption.resumed_step) == ("Failed", 17, 15)
    assert "at step 17; resumed at step 15" in " ".join(ended.err.split()) or show(run.path)["interruptions"]
    assert read_status(run.path).status == "Completed"
    assert run.verify() == []
    verdicts = [{rule["name"]: rule["verdict"] for rule in show(one.path)["rules"]} for one in (run, expected)]
    assert verdicts[0]["loss_not_decreasing"] == verdicts[1]["loss_not_decreasing"]
