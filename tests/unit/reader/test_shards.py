"""Statistics of shards combine to those that numpy computes of the whole tensor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import leadline
from leadline.errors import NotCapturedError
from leadline.records.series import Shard, TensorInfo
from leadline.statistics import arrays
from leadline.testing.runs import Capture, RawTensors, RunWriter

COMBINED = (
    *("min", "max", "sum", "mean", "prod", "l1", "l2", "abs_mean", "abs_max", "abs_min", "rms", "std", "variance"),
    *("zero_ratio", "nan_count", "nonfinite_count"),
)
WHOLE = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
WHOLE[1, 2] = 0.0
BLOCKS = (Shard((0, 0), (3, 4)), Shard((3, 0), (2, 4)), Shard((5, 0), (0, 4)))
"""The third worker has no elements."""


def write(path: Path, blocks: tuple[Shard, ...], *, statistics: tuple[str, ...], is_raw: bool) -> leadline.Run:
    """Write a run in which each worker has captured one block of a tensor."""
    writer = RunWriter(path / "run")
    for rank, block in enumerate(blocks):
        values, worker = WHOLE[block.slices], f"rank{rank}-1"
        info = TensorInfo("w", ("weights",), WHOLE.shape, "float32", block)
        captured = {name: arrays.compute(name, values) for name in ("nonfinite_count", *statistics)}
        records = [Capture(0, {"w": captured}, worker, infos={"w": info})]
        raw = [RawTensors(0, {"w": ("F32", values.shape, values.tobytes())}, worker)] if is_raw else []
        writer.write_all([*records, *raw])
    return leadline.open_run(writer.end().path)


@pytest.mark.parametrize("statistic", COMBINED)
def test_statistics_of_shards_combine(tmp_path: Path, statistic: str) -> None:
    needed = (statistic, "mean") if statistic in ("std", "variance") else (statistic,)
    tensor = write(tmp_path, BLOCKS, statistics=needed, is_raw=False).tensor("w")
    assert tensor.statistic(statistic, 0) == pytest.approx(arrays.compute(statistic, WHOLE), rel=1e-12)
    of_worker = tensor.statistic(statistic, 0, worker="rank1-1")
    assert of_worker == pytest.approx(arrays.compute(statistic, WHOLE[3:]), rel=1e-12)


def test_replicas_of_a_shard_count_once(tmp_path: Path) -> None:
    tensor = write(tmp_path, (*BLOCKS, *BLOCKS), statistics=("sum",), is_raw=True).tensor("w")
    assert tensor.statistic("sum", 0) == pytest.approx(arrays.compute("sum", WHOLE))
    np.testing.assert_array_equal(tensor.value(0), WHOLE)


def test_what_does_not_combine_is_computed_of_the_assembled_tensor(tmp_path: Path) -> None:
    tensor = write(tmp_path, BLOCKS, statistics=("median_exact",), is_raw=True).tensor("w")
    assert tensor.statistic("median_exact", 0) == np.median(WHOLE)
    assert tensor.statistic("std", 0) == pytest.approx(arrays.compute("std", WHOLE))


def test_a_missing_shard_leaves_no_whole(tmp_path: Path) -> None:
    tensor = write(tmp_path, BLOCKS[:1], statistics=("sum",), is_raw=True).tensor("w")
    with pytest.raises(NotCapturedError, match="give a worker"):
        tensor.statistic("sum", 0)
    with pytest.raises(NotCapturedError, match="not stored"):
        tensor.value(0)
    np.testing.assert_array_equal(tensor.value(0, worker="rank0-1"), WHOLE[:3])


@pytest.mark.parametrize("name", ["median", "p5", "p90_exact"])
def test_percentiles_are_merged_within_a_range_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    generator = np.random.default_rng(1)
    parts = [generator.normal(0.2 * rank, 1 + rank, size=(200, 50)).astype(np.float32) for rank in range(4)]
    monkeypatch.setattr("test_shards.WHOLE", np.concatenate(parts))
    blocks = tuple(Shard((200 * rank, 0), (200, 50)) for rank in range(4))
    exact = name if name.endswith("_exact") else f"{name}_exact"
    expected = arrays.compute(exact, np.concatenate(parts))
    captured = (name, "min", "max", "p25", "p75") if name == "median" else (name, "min", "max")
    tensor = write(tmp_path, blocks, statistics=captured, is_raw=False).tensor("w")
    low, high = tensor.statistic_range(name, 0)
    found = tensor.statistic(name, 0)
    assert low <= found <= high
    assert low <= expected <= high
    assert found == pytest.approx(expected, abs=0.35 * (high - low))
    assert (low, high) == (min(values := [arrays.compute(name, part) for part in parts]), max(values))
    assert tensor.statistic_range("min", 0) == (WHOLE.min(),) * 2


def test_a_percentile_of_stored_shards_is_exact(tmp_path: Path) -> None:
    tensor = write(tmp_path, BLOCKS, statistics=("median", "min", "max"), is_raw=True).tensor("w")
    assert tensor.statistic_range("median", 0) == (np.median(WHOLE),) * 2
