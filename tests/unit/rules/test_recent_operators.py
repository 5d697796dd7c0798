"""Operators in findings on hardware metrics, with their share of the time."""

from __future__ import annotations

from pathlib import Path

import pytest
from timelines import CPU, IOWAIT, gpu, merge_by_time, sampled, training

from leadline.judge.evaluator import Evaluator
from leadline.profiles.operator_times import BIN_NS, OperatorTimes, bin_operator_times
from leadline.rules.rule import Rule
from leadline.rules.system.batch_size import BatchSize
from leadline.rules.system.cpu_bottleneck import CPUBottleneck
from leadline.rules.system.cpu_utilization import CPUUtilization
from leadline.rules.system.hardware_utilization import HardwareUtilization
from leadline.rules.system.io_bottleneck import IOBottleneck
from leadline.rules.system.low_gpu_utilization import LowGPUUtilization
from leadline.rules.system.phase_times import RecentOperators
from leadline.testing.runs import SECOND_NS, START_NS, DetailedProfile, RunWriter

MS = 1_000_000
SOON = {"patience": 2, "window": 10}


def call(operator: str, start_ms: int, total_ms: int, own_ms: int, device: str = "cpu") -> dict[str, object]:
    return {
        "operator": operator,
        "device": device,
        "start_ns": start_ms * MS,
        "total_ns": total_ms * MS,
        "own_ns": own_ms * MS,
    }


def recorded(*calls: dict[str, object], end_ms: int = 400) -> OperatorTimes:
    return OperatorTimes("w", "d", 0, 1, 0, end_ms * MS, 0, bins=bin_operator_times(calls, 0, end_ms * MS))


def test_the_own_time_of_a_call_is_spread_over_its_duration() -> None:
    bins = bin_operator_times([call("a", 50, 100, 40), call("k", 120, 10, 10, "gpu0")], 0, 400 * MS)
    assert bins == {0: {"a": 20 * MS}, 1: {"a": 20 * MS, "k on gpu0": 10 * MS}, 2: {}, 3: {}, 4: {}}


def test_shares_are_relative_to_the_time_that_windows_cover() -> None:
    operators = RecentOperators()
    operators.add([recorded(call("a", 0, 100, 100), call("b", 100, 50, 50), call("c", 300, 100, 100))])
    assert operators.shares([2 * BIN_NS - 1], 2 * BIN_NS) == {"a": 0.5, "b": 0.25}
    assert operators.shares([40 * BIN_NS], BIN_NS) == {}


@pytest.mark.parametrize(
    ("rule", "cpu", "iowait", "gpu_percent"),
    [
        (CPUBottleneck(patience=2), 99.0, 0.0, 3.0),
        (IOBottleneck(patience=2), 20.0, 90.0, 3.0),
        (LowGPUUtilization(**SOON), 20.0, 0.0, 5.0),
        (BatchSize(**SOON), 20.0, 0.0, 30.0),
        (CPUUtilization(**SOON), 99.0, 0.0, 90.0),
        (HardwareUtilization(**SOON), 99.0, 0.0, 90.0),
    ],
    ids=lambda each: each.name if isinstance(each, Rule) else "",
)
def test_a_finding_names_the_operators_of_its_bad_intervals(
    tmp_path: Path, rule: Rule, cpu: float, iowait: float, gpu_percent: float
) -> None:
    count = 40
    channels = {
        CPU: [cpu] * count,
        IOWAIT: [iowait] * count,
        gpu(0): [gpu_percent] * count,
        gpu(0, "memory_used_percent"): [10.0] * count,
    }
    calls = [("aten::decode", 0.0, 600.0), ("aten::mm", 600.0, 200.0)]
    window = DetailedProfile("d", 40, START_NS + 6 * SECOND_NS, calls, step_ms=1000.0)
    scenario = merge_by_time(training([{"data": 80.0, "forward": 20.0}] * 180), sampled(channels), [window])
    path = RunWriter(tmp_path / "run").write_all(scenario).end().path
    progress = Evaluator(path, [("it", rule)], started_ns=START_NS).advance(is_over=True)
    opened = next(event for _, event in progress.events if event["event"] == "opened")
    assert "; meanwhile: 80 % data, 20 % forward; operators: 60 % aten::decode, 20 % aten::mm" in opened["message"]
    assert opened["evidence"]["operators"] == {"aten::decode": pytest.approx(0.6), "aten::mm": pytest.approx(0.2)}
