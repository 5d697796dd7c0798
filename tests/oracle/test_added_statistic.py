"""A statistic that is added to the table is computed by numpy, by PyTorch on all paths, and of merged shards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from test_cuda_statistics import launch_on_host

import leadline
from leadline.frameworks.torch.kernels import cuda_statistics, fused_statistics
from leadline.frameworks.torch.kernels.statistics import device_statistics
from leadline.records.series import Shard, TensorInfo
from leadline.statistics import arrays, one_pass
from leadline.statistics.definitions import STATISTICS, Statistic
from leadline.statistics.derivations import Derivation, per_element
from leadline.testing.runs import Capture, RunWriter

VALUES = np.random.default_rng(0).normal(1.0, 2.0, size=(50, 40)).astype(np.float32)
EXPECTED = {
    "mean_square": float(np.mean(np.square(VALUES, dtype=np.float64))),
    "range_per_std": float(np.ptp(VALUES) / np.std(VALUES, dtype=np.float64)),
}
"""The added statistics by numpy's own functions."""


@pytest.fixture(autouse=True)
def _added(monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = Derivation(
        ("min", "max", "centred"), lambda xp, p: (p["max"] - p["min"]) / xp.sqrt(p["centred"] / p["size"])
    )
    for name, derivation in (("mean_square", per_element("squares")), ("range_per_std", ranges)):
        monkeypatch.setitem(STATISTICS, name, Statistic(name, name, "tensor", "propagates", derivation))


@pytest.mark.parametrize("name", EXPECTED)
def test_numpy_computes_it(name: str) -> None:
    assert arrays.compute(name, VALUES) == pytest.approx(EXPECTED[name])
    assert one_pass.compute_all((name, "mean"), VALUES)[0] == pytest.approx(EXPECTED[name])


@pytest.mark.parametrize("name", EXPECTED)
def test_pytorch_computes_it(name: str) -> None:
    tensors = [torch.from_numpy(VALUES), torch.from_numpy(np.tile(VALUES, (20, 1)))]  # stacked, and in chunks
    with torch.no_grad():
        assert device_statistics(tensors, frozenset({name}))[name] == pytest.approx([EXPECTED[name]] * 2, rel=1e-5)
        assert cuda_statistics.supports(name)
        numbers, finish = cuda_statistics.begin(tensors, (name,))
        assert finish(numbers.numpy()) == pytest.approx([EXPECTED[name]] * 2)
        assert fused_statistics.supports(name)
        numbers, finish = fused_statistics.begin(tensors, (name,), launch_on_host)
        assert finish(numbers.numpy()) == pytest.approx([EXPECTED[name]] * 2)


@pytest.mark.parametrize(
    ("name", "captured"),
    [("mean_square", ("mean_square",)), ("range_per_std", ("range_per_std", "min", "max", "std", "mean"))],
)
def test_shards_merge_into_it(tmp_path: Path, name: str, captured: tuple[str, ...]) -> None:
    writer = RunWriter(tmp_path / "run")
    for rank, shard in enumerate((Shard((0, 0), (20, 40)), Shard((20, 0), (30, 40)))):
        info = TensorInfo("w", ("weights",), VALUES.shape, "float32", shard)
        values = {each: arrays.compute(each, VALUES[shard.slices]) for each in captured}
        writer.write_all([Capture(0, {"w": values}, f"rank{rank}-1", infos={"w": info})])
    run = leadline.open_run(writer.end().path)
    assert run.tensor("w").statistic(name, 0) == pytest.approx(EXPECTED[name])
