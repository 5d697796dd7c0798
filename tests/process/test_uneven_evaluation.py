"""Ranks of which only one evaluates: judged and stopped at the same train steps."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from launching import rule, script, watched

TORCHRUN = (str(Path(sys.executable).parent / "torchrun"), "--standalone", "--nproc-per-node", "2")


@pytest.mark.slow
def test_eval_steps_of_one_rank_do_not_shift_the_others(tmp_path: Path) -> None:
    ended = watched((), *TORCHRUN, script("uneven_evaluation.py"), "-1", folder=tmp_path)
    assert ended.status == 0, ended.err
    printed = [float(line.split()[1]) for line in ended.lines if line.startswith("eval")]
    run = ended.run
    first, second = sorted(run.workers())
    steps = {worker: document.steps for worker, document in run.worker_documents().items()}
    assert steps == {first: {"train": 35, "eval": 9}, second: {"train": 35}}
    rows = run.tensor("mse_loss_output_0").statistics("value").to_pylist()
    evaluated = [row for row in rows if row["mode"] == "eval"]
    assert [row["value"] for row in evaluated] == pytest.approx(printed)
    assert [(row["worker"], row["mode_step"], row["step"]) for row in evaluated] == [
        (first, index, 10 * (index // 3 + 1)) for index in range(9)
    ]
    for worker in (first, second):
        trained = [(row["step"], row["mode_step"]) for row in rows if (row["mode"], row["worker"]) == ("train", worker)]
        assert trained == [(step, step) for step in range(35)]


@pytest.mark.slow
def test_ranks_with_uneven_evaluation_stop_together(tmp_path: Path) -> None:
    on = ("--on", "exploding_tensor=stop_training")
    ended = watched(on, *TORCHRUN, script("uneven_evaluation.py"), "45", folder=tmp_path)
    assert ended.status == 10, ended.err
    said = ended.show()
    assert (said["status"], said["stopped_by"]) == ("Stopped", "rule:exploding_tensor")
    assert rule(said, "exploding_tensor")["findings"][0]["step"] == 45
    taken = [json.loads(path.read_text()) for path in Path(ended.run.path, "control", "acks").iterdir()]
    assert [acknowledgement["step"] for acknowledgement in taken] == [said["actions"][0]["step"]] * 2
