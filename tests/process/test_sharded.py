"""Of a sharded training each rank tells its own part, and waits for no other to do so."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest
from launching import script, watched

from leadline.reader.run import Run

TORCHRUN = (str(Path(sys.executable).parent / "torchrun"), "--standalone", "--nproc-per-node", "2")


@pytest.mark.slow
def test_sharded_gradients_norms_and_variables(tmp_path: Path) -> None:
    options = ("--capture", "gradient_norms:every=1", "--capture", "optimizer_variables:every=1")
    ended = watched(options, *TORCHRUN, script("sharded.py"), ".", folder=tmp_path)
    assert ended.status == 0, ended.err
    found = {worker[:5]: _values(ended.run, worker) for worker in ended.run.workers()}
    told = {rank: json.loads((tmp_path / f"{rank}.json").read_text()) for rank in ("rank0", "rank1")}
    assert found.keys() == told.keys()
    for rank, each in told.items():
        assert found[rank]["gradient_norm_before_clipping"] == pytest.approx(each["norms"])
        assert found[rank]["AdamW/exp_avg/0.weight"] == pytest.approx(each["moments"][1:], rel=1e-5)
    for step, norm in enumerate(told["rank0"]["norms"]):
        after = math.hypot(*(found[rank]["gradient_norm"][step] for rank in told))
        assert after == pytest.approx(min(norm, 0.1), rel=1e-4)


def _values(run: Run, worker: str) -> dict[str, list[float]]:
    """What a worker captured: of numbers themselves, of tensors their l2."""
    found = {}
    for name, statistic in (
        ("gradient_norm", "value"),
        ("gradient_norm_before_clipping", "value"),
        ("AdamW/exp_avg/0.weight", "l2"),
    ):
        tensor = run.tensor(name)
        steps = tensor.steps()
        found[name] = [tensor.statistic(statistic, step, worker=worker) for step in steps]
    return found
