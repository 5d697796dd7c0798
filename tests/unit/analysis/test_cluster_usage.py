"""Resource utilization over all nodes, compared with numpy on every sample."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from timelines import CPU, gpu, merge_by_time, sampled

from leadline.analysis.digest import Digest
from leadline.analysis.usage import ALL_NODES, PERCENTILES, cluster_usage, weighted_percentiles
from leadline.reader.run import Run
from leadline.testing.runs import SECOND_NS, START_NS, RunWriter


def test_cluster_usage_equals_numpy_on_all_samples(tmp_path: Path) -> None:
    chance = np.random.default_rng(7)
    result = {
        (node, channel): chance.uniform(0, 100, 40).round(2).tolist()
        for node in ("a", "b", "c")
        for channel in (CPU, gpu(0), gpu(1))
    }
    nodes = [sampled({one: result[node, one] for one in (CPU, gpu(0), gpu(1))}, node=node) for node in ("a", "b", "c")]
    writer = RunWriter(tmp_path / "run").write_all(merge_by_time(*nodes))
    writer.set_status("Completed", ended_ns=START_NS + 30 * SECOND_NS)
    rows = {each["kind"]: each for each in cluster_usage(Digest(Run(writer.path)).system(points=4000))}
    for kind, device, is_mine in (("cpu", "total", CPU.__eq__), ("gpu", "all", lambda one: one != CPU)):
        values = [value for (_, channel), values in result.items() if is_mine(channel) for value in values]
        assert rows[kind]["samples"] == len(values)
        assert (rows[kind]["node"], rows[kind]["device"]) == (ALL_NODES, device)
        expected = np.percentile(values, list(PERCENTILES.values()))
        assert [rows[kind][name] for name in PERCENTILES] == pytest.approx(expected.tolist())


@pytest.mark.parametrize("seed", range(5))
def test_weighted_values_count_several_times(seed: int) -> None:
    chance = np.random.default_rng(seed)
    values, weights = chance.normal(size=17), chance.integers(1, 9, size=17)
    percents = [0, 1, 37, 50, 90, 99, 100]
    expected = np.percentile(np.repeat(values, weights), percents)
    assert weighted_percentiles(values, weights, percents) == pytest.approx(expected.tolist())


def test_all_percentiles_of_one_value_are_equal() -> None:
    assert weighted_percentiles(np.array([3.0]), np.array([1]), [0, 50, 100]) == [3.0, 3.0, 3.0]
