"""Statistics of shards combine to those that numpy computes of the whole tensor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import leadline
from leadline.analysis.histograms import read_histograms
from leadline.errors import NotCapturedError
from leadline.records.series import Shard, TensorInfo
from leadline.statistics import arrays
from leadline.testing.runs import ArrayStatistics, Capture, RawTensors, RunWriter

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


def with_histograms(path: Path, whole: np.ndarray, blocks: tuple[Shard, ...], stride: int = 1) -> leadline.Run:
    """Write a run in which each worker has captured the histogram of a block, or of every n-th of its elements."""
    writer = RunWriter(path / "run")
    for rank, block in enumerate(blocks):
        values, worker = whole[block.slices], f"rank{rank}-1"
        info = TensorInfo("w", ("weights",), whole.shape, "float64", block)
        row = {"nonfinite_count": arrays.compute("nonfinite_count", values)}
        histogram = arrays.compute_vector("histogram", values.reshape(-1)[::stride])
        writer.write_all(
            [
                Capture(0, {"w": row}, worker, infos={"w": info}),
                ArrayStatistics(0, {"w": {"histogram": histogram}}, worker).raw,
            ]
        )
    return leadline.open_run(writer.end().path)


def test_histograms_of_shards_are_merged(tmp_path: Path) -> None:
    generator = np.random.default_rng(2)
    whole = np.concatenate([generator.normal(-5, 1, (600, 10)), generator.uniform(0, 20, (200, 10))])
    whole[3, 3] = np.nan
    blocks = (Shard((0, 0), (600, 10)), Shard((600, 0), (200, 10)), Shard((800, 0), (0, 10)))
    for stride in (1, 3):
        tensor = with_histograms(tmp_path / str(stride), whole, blocks, stride).tensor("w")
        found = tensor.statistic_array("histogram", 0)
        assert found[2:].sum() == pytest.approx(7999)
        own = [tensor.statistic_array("histogram", 0, worker=f"rank{rank}-1") for rank in (0, 1)]
        assert own[1][2:].sum() == len(range(0, 2000, stride))
        # at each edge of a bin, the counts are off by a part of one bin of each shard, and by the sample
        edges = np.linspace(found[0], found[1], 31)[1:]
        error = np.cumsum(found[2:]) - np.searchsorted(np.sort(whole[np.isfinite(whole)]), edges, side="right")
        assert np.abs(error).max() < stride * sum(one[2:].max() for one in own) + (0 if stride == 1 else 150)
        if stride == 1:
            assert found[:2].tolist() == [np.nanmin(whole), np.nanmax(whole)]
        counts = read_histograms(tensor).counts
        assert counts.sum() == pytest.approx(7999), "what pages draw is the whole"


def test_array_statistics_of_stored_shards_are_those_of_the_whole(tmp_path: Path) -> None:
    tensor = write(tmp_path, BLOCKS, statistics=(), is_raw=True).tensor("w")
    for name in ("histogram", "histogram_exact", "unit_mean"):
        np.testing.assert_allclose(tensor.statistic_array(name, 0), arrays.compute_vector(name, WHOLE))


def test_an_array_that_does_not_combine_is_not_that_of_one_shard(tmp_path: Path) -> None:
    lacking = (Shard((0, 0), (3, 4)), Shard((4, 0), (1, 4)))
    tensor = with_histograms(tmp_path, WHOLE.astype(np.float64), lacking).tensor("w")
    with pytest.raises(NotCapturedError, match="no histogram of the whole w, but of shards: give a worker"):
        tensor.statistic_array("histogram", 0)
    constant = with_histograms(tmp_path / "constant", np.full((5, 4), 2.0), BLOCKS[:2]).tensor("w")
    expected = arrays.compute_vector("histogram", np.full(20, 2.0))
    np.testing.assert_array_equal(constant.statistic_array("histogram", 0), expected)
