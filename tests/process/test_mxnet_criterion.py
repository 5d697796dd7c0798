"""A block of the script at whose output a backward pass began is a loss in evaluation, too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from launching import LEADLINE, MXNET, environment, finish, needs_mxnet, only_run, script


@pytest.mark.slow
@needs_mxnet
def test_a_criterion_of_the_script_is_a_loss_in_training_and_evaluation(tmp_path: Path) -> None:
    words = [*LEADLINE, "run", "--out", str(tmp_path / "runs"), "--no-default-rules", "--", MXNET]
    done = finish([*words, script("mxnet_criterion.py")], tmp_path, env=environment())
    assert done.status == 0, done.err
    truth = json.loads(done.lines[-1])
    run = only_run(tmp_path / "runs")
    (name,) = run.tensor_names(collection="losses")
    assert name.endswith("_output_0")
    for mode, expected in truth.items():
        rows = run.scalars(name, mode=mode).sort_by("mode_step").to_pylist()
        assert [row["value"] for row in rows] == pytest.approx(expected, rel=1e-5), mode
