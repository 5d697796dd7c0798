"""Four ranks: shards of workers make up the tensors that ``full_tensor`` returns, with the statistics of the whole."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from launching import Ended, script, watched

from leadline.errors import NotCapturedError
from leadline.statistics import arrays

TORCHRUN = (str(Path(sys.executable).parent / "torchrun"), "--standalone", "--nproc-per-node", "4")
KINDS = ("sharded", "replicated_shards", "tensor_parallel", "plain")
EACH = 3
STATISTICS = ("min", "max", "mean", "std", "l1", "l2", "abs_mean", "abs_max", "zero_ratio", "nonfinite_count")
COMPUTED = ("median_exact", "rms")
"""Statistics that were not captured: they are computed of the assembled tensor."""
CAPTURE = (
    *("--no-default-rules", "--capture", f"all:every=1,statistics={','.join((*STATISTICS, 'histogram'))}"),
    *("--capture", "all:every=1,raw=true"),
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    folder = tmp_path_factory.mktemp("whole")
    ended = watched(CAPTURE, *TORCHRUN, script("whole_tensors.py"), str(folder), folder=folder)
    assert ended.status == 0, ended.err
    return ended


@pytest.mark.parametrize("kind", KINDS)
def test_shards_make_up_the_whole_tensor_and_its_statistics(trained: Ended, kind: str) -> None:
    run, told = trained.run, torch.load(trained.root.parent / f"{kind}.pt", weights_only=True)
    assert len(told) == 8
    for name, steps in told.items():
        tensor = run.tensor(name)
        for step, expected in ((step, value.numpy()) for step, value in steps.items()):
            for statistic in STATISTICS:
                found = tensor.statistic(statistic, step)
                assert found == pytest.approx(arrays.compute(statistic, expected), rel=1e-5, abs=1e-8), statistic
            np.testing.assert_array_equal(tensor.value(step), expected)
            histogram = arrays.compute_vector("histogram", expected)
            np.testing.assert_array_equal(tensor.statistic_array("histogram", step), histogram)
            for statistic in COMPUTED:
                assert tensor.statistic(statistic, step) == pytest.approx(arrays.compute(statistic, expected), rel=1e-5)


def test_a_worker_has_its_own_shard(trained: Ended) -> None:
    weight = trained.run.tensor("0.weight")
    assert weight.shape == (10, 4)
    shards = [weight.value(0, worker=worker) for worker in sorted(trained.run.workers())]
    assert [shard.shape for shard in shards] == [(3, 4), (3, 4), (3, 4), (1, 4)]
    np.testing.assert_array_equal(np.concatenate(shards), weight.value(0))
    captured = [weight.statistic_array("histogram", 0, worker=worker) for worker in sorted(trained.run.workers())]
    assert [histogram[2:].sum() for histogram in captured] == [12, 12, 12, 4]
    with pytest.raises(NotCapturedError, match="give a worker"):
        weight.statistic("checksum", 0)
