"""Resource utilization, compared with plain loops, and by phase."""

from __future__ import annotations

import random

import numpy as np
import pytest
from timelines import CPU, MEMORY, MS, gpu, merge_by_time, sampled, training

from leadline.analysis.digest import Digest
from leadline.analysis.steps import read_steps
from leadline.analysis.usage import mean_of, phases_between, usage, usage_by_phase
from leadline.reader.run import open_run
from leadline.records.metric import Channel
from leadline.records.names import PARTS
from leadline.testing.runs import START_NS, Part, RunWriter, SystemSample


def opened(tmp_path, run_parts: list[Part]):
    return open_run(RunWriter(tmp_path / "run", batch_rows=5).write_all(run_parts).end().path)


def percentile(values: list[float], percent: float) -> float:
    """Linear interpolation, by hand."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def test_percentiles_equal_those_of_a_plain_sort(tmp_path) -> None:
    chance = random.Random(3)
    values = {CPU: [chance.uniform(0, 100) for _ in range(57)], gpu(1): [chance.uniform(0, 100) for _ in range(31)]}
    rows = usage(opened(tmp_path, list(sampled(values))).system_metrics())
    assert [(row["kind"], row["device"]) for row in rows] == [("cpu", "total"), ("gpu", "gpu1")]
    for row, each in zip(rows, values.values(), strict=True):
        assert row["samples"] == len(each)
        for name, percent in {"min": 0, "p50": 50, "p90": 90, "p95": 95, "p99": 99, "max": 100}.items():
            assert row[name] == pytest.approx(percentile(each, percent))


def test_metrics_without_samples_have_no_row(tmp_path) -> None:
    system = opened(tmp_path, list(sampled({MEMORY: [1.0]}))).system_metrics()
    assert mean_of(system, "gpu", "utilization_percent") is None
    assert [row["kind"] for row in usage(system)] == ["memory"]


def test_a_sample_counts_for_the_phases_before_it(tmp_path) -> None:
    """A GPU that is idle while the training waits for data, and busy while it computes."""
    run_parts = merge_by_time(
        training([{"data": 1000.0}] * 3 + [{"forward": 600.0, "backward": 400.0}] * 3),
        sampled({gpu(0): [5.0] * 6 + [90.0] * 6}, every_ms=500.0),
    )
    run = opened(tmp_path, run_parts)
    by_phase = usage_by_phase(run.system_metrics(), read_steps(run.timeline()), "gpu", "utilization_percent")
    assert by_phase == pytest.approx({"data": 5.0, "forward": 90.0, "backward": 90.0})


def test_phase_times_in_an_interval_equal_a_plain_loop(tmp_path) -> None:
    chance = random.Random(5)
    run_parts = training(
        [{"data": chance.uniform(1, 90), "backward": chance.uniform(1, 90)} for _ in range(30)], other_ms=7.0
    )
    steps = read_steps(opened(tmp_path, run_parts).timeline())
    for _ in range(20):
        start = START_NS + chance.randrange(0, 2000) * MS
        end = start + chance.randrange(1, 900) * MS
        expected = dict.fromkeys(PARTS, 0.0)
        for place in range(len(steps)):
            begin, length = int(steps.start_ns[place]), int(steps.duration_ns[place])
            overlap = max(0, min(end, begin + length) - max(start, begin))
            for at, name in enumerate(PARTS):
                expected[name] += steps.phases[place, at] * overlap / length
        found = phases_between(steps, np.array([start]), np.array([end]))[0]
        assert found == pytest.approx(list(expected.values()), abs=10.0)


RECEIVED = Channel("network", "total", "received_bytes_per_second")


@pytest.mark.parametrize(
    ("times_ms", "total"),
    [
        ([0, 500, 1000, 1500], 2000),  # 4 intervals of 500 ms at 1,000 bytes per second
        ([0, 500, 1000, 11_000, 11_500], 2500),  # nothing was sampled for 10 s
        ([0, 100, 200, 5200, 10_200], 10_300),  # the interval was changed
        ([0], 0),
    ],
)
def test_the_total_of_a_rate_counts_what_was_sampled(tmp_path, times_ms: list[int], total: int) -> None:
    samples = [SystemSample(START_NS + at * 1_000_000, 1000.0, RECEIVED) for at in times_ms]
    run = opened(tmp_path, samples)
    for (row,) in (usage(run.system_metrics()), Digest(run).usage()):
        assert row["total_bytes"] == total


def test_only_rates_have_a_total(tmp_path) -> None:
    (row,) = usage(opened(tmp_path, list(sampled({MEMORY: [1.0, 2.0]}))).system_metrics())
    assert "total_bytes" not in row
