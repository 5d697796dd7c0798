"""Live == afterwards == after a restart == with other segments, for the time-based rules."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from unittest import mock

import pytest
import test_replay
from hypothesis import given, settings
from hypothesis import strategies as st
from system_scenarios import system_scenario
from test_replay import RecordedJudge, judge_afterwards, judged_in_all_ways
from timelines import CPU, merge_by_time, sampled, training

from leadline.rules.registry import find_rule
from leadline.rules.rule import Rule
from leadline.testing.runs import RunWriter

SOON = {"patience": 3, "window": 10}
RULES: dict[str, Callable[[], Rule]] = {
    "batch_size": partial(find_rule("batch_size"), **SOON),
    "cpu_bottleneck": partial(find_rule("cpu_bottleneck"), patience=3, gpu_threshold=50.0, cpu_threshold=60.0),
    "cpu_utilization": partial(find_rule("cpu_utilization"), **SOON),
    "dataloader": find_rule("dataloader"),
    "gpu_memory_increase": partial(find_rule("gpu_memory_increase"), patience=3, window=5),
    "gpu_throttling": find_rule("gpu_throttling"),
    "hardware_utilization": partial(find_rule("hardware_utilization"), **SOON),
    "input_bound": partial(find_rule("input_bound"), window=20),
    "io_bottleneck": partial(find_rule("io_bottleneck"), patience=0),
    "load_balancing": partial(find_rule("load_balancing"), patience=3),
    "low_gpu_utilization": partial(find_rule("low_gpu_utilization"), **SOON),
    "max_initialization_time": partial(find_rule("max_initialization_time"), threshold=0.05),
    "overall_framework_metrics": find_rule("overall_framework_metrics"),
    "overall_system_usage": find_rule("overall_system_usage"),
    "profiler_report": partial(
        find_rule("profiler_report"),
        LowGPUUtilization_patience=3,
        LowGPUUtilization_window=10,
        CPUUtilization_patience=3,
        CPUUtilization_window=10,
        StepOutlier_stddev=3.0,
        StepOutlier_n_outliers=1,
    ),
    "step_outlier": partial(find_rule("step_outlier"), stddev=3.0, n_outliers=1),
    "straggler": find_rule("straggler"),
    "throughput_regression": partial(find_rule("throughput_regression"), window=15),
}


@pytest.mark.slow
@settings(deadline=None, max_examples=12)
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 40),
    batches=st.integers(1, 20),
    look=st.integers(20, 400),
    restart=st.integers(0, 1000),
)
def test_verdicts_are_the_same_live_afterwards_restarted_and_with_other_segments(
    seed: int, rows: int, batches: int, look: int, restart: int
) -> None:
    judged_in_all_ways(system_scenario(seed, seconds=16), RULES, rows, batches, look, restart, batch_rows=50)


@pytest.mark.parametrize("seed", [4, 5])
def test_a_rank_with_a_late_timeline_gets_the_same_verdicts(tmp_path, seed: int) -> None:
    scenario = system_scenario(seed, seconds=12)
    late = [part for part in scenario if getattr(part, "worker", None) == "rank0-7"]
    early = [part for part in scenario if part not in late]
    with mock.patch.object(test_replay, "RULES", RULES):
        once = judge_afterwards(RunWriter(tmp_path / "once", batch_rows=50).write_all(scenario).end().path)
        writer = RunWriter(tmp_path / "live", batch_rows=10)
        live = RecordedJudge(writer.path)
        for half in (early, late):
            for count, _ in enumerate(writer.grow(half)):
                if count % 150 == 0:
                    live.advance()
        writer.end()
        live.advance(is_over=True)
        assert late
        assert (live.events, live.states) == (once.events, once.states)


def test_late_facts_of_workers_give_the_same_verdicts(tmp_path) -> None:
    rules = {"dataloader": RULES["dataloader"]}
    steps = training([{"data": 1.0, "forward": 99.0}] * 100, worker="rank0-7")
    with mock.patch.object(test_replay, "RULES", rules):
        writer = RunWriter(tmp_path / "live", batch_rows=20).write_all(
            merge_by_time(steps, sampled({CPU: [50.0] * 22}))
        )
        live = RecordedJudge(writer.path).advance()
        assert live.states["dataloader"]["verdict"] == "clear"
        writer.write_node("node", cpu_count=4)
        writer.end()
        writer.write_worker("rank0-7", state="ended", facts={"dataloader_workers": 1})
        live.advance(is_over=True)
        once = judge_afterwards(writer.path)
        assert (live.events, live.states) == (once.events, once.states)
        assert live.states["dataloader"]["verdict"] == "fired"
