"""Bottleneck of a run: each kind on synthetic runs; a healthy run is limited by compute."""

from __future__ import annotations

import pytest
from timelines import CPU, MEMORY, gpu, merge_by_time, sampled, training

from leadline.analysis.bottleneck import Bottleneck
from leadline.analysis.time_breakdown import TimeBreakdown, read_time_breakdown
from leadline.testing.runs import SECOND_NS, START_NS, Part, RunWriter

HEALTHY = {"data": 1.0, "forward": 30.0, "backward": 50.0, "optimizer": 10.0}


def breakdown_of(tmp_path, *parts: list[Part]) -> TimeBreakdown:
    writer = RunWriter(tmp_path / "run", batch_rows=5).write_all(merge_by_time(*parts))
    writer.end()
    return read_time_breakdown(writer.path)


def bottleneck_of(tmp_path, *parts: list[Part]) -> Bottleneck:
    bottleneck = breakdown_of(tmp_path, *parts).bottleneck
    assert bottleneck is not None
    assert bottleneck.message
    assert bottleneck.suggestion
    return bottleneck


@pytest.mark.parametrize(
    ("changed", "kind", "phase", "message"),
    [
        ({}, "compute", "backward", "99 % of the step time is compute, most of it backward"),
        ({"data": 90.0}, "input", "data", "50 % of the step time is waiting for data"),
        ({"collective": 60.0}, "communication", "collective", "40 % of the step time is collectives between ranks"),
        ({"checkpoint": 60.0}, "host", "checkpoint", "40 % of the step time is saving checkpoints"),
        ({"copy": 60.0}, "host", "copy", "40 % of the step time is copying to the device"),
    ],
)
def test_the_largest_phase_is_reported(
    tmp_path, changed: dict[str, float], kind: str, phase: str, message: str
) -> None:
    bottleneck = bottleneck_of(tmp_path, training([HEALTHY | changed] * 30))
    assert (bottleneck.kind, bottleneck.phase, bottleneck.message) == (kind, phase, message)


def test_suggestions_for_boosted_trees_differ(tmp_path) -> None:
    writer = RunWriter(tmp_path / "run").write_all(training([{"optimizer": 90.0, "data": 1.0}] * 30))
    writer.end()
    writer.write_worker("rank0-1", framework="xgboost 3.2.0", state="ended")
    bottleneck = read_time_breakdown(writer.path).bottleneck
    assert bottleneck is not None
    assert (bottleneck.kind, "nthread" in bottleneck.suggestion, "torch" in bottleneck.suggestion) == (
        "compute",
        True,
        False,
    )
    assert "torch" in bottleneck_of(tmp_path / "network", training([HEALTHY] * 30)).suggestion


def test_the_forward_phase_of_boosted_trees_is_scoring(tmp_path) -> None:
    writer = RunWriter(tmp_path / "run").write_all(training([{"optimizer": 40.0, "forward": 60.0}] * 30))
    writer.end()
    writer.write_worker("rank0-1", framework="lightgbm 4.7.0", state="ended")
    bottleneck = read_time_breakdown(writer.path).bottleneck
    assert bottleneck is not None
    assert (bottleneck.kind, bottleneck.phase) == ("compute", "forward")
    assert bottleneck.message == "60 % of the time of a round is spent scoring the evaluation sets"
    assert "fewer metrics" in bottleneck.suggestion


def test_time_between_the_phases_is_attributed_to_the_host(tmp_path) -> None:
    bottleneck = bottleneck_of(tmp_path, training([HEALTHY] * 30, other_ms=80.0))
    assert (bottleneck.kind, bottleneck.phase) == ("host", "other")


def test_periodic_slow_steps_are_mentioned_in_the_message(tmp_path) -> None:
    slow = [HEALTHY | ({"checkpoint": 3000.0} if step % 25 == 24 else {}) for step in range(100)]
    bottleneck = bottleneck_of(tmp_path, training(slow))
    assert bottleneck.message == "57 % of the step time is saving checkpoints, most of it in 4 of 99 steps"


@pytest.mark.parametrize("phase", ["data", "forward", "backward"])
def test_a_slow_rank_is_named_with_its_phase(tmp_path, phase: str) -> None:
    slow = HEALTHY | {phase: HEALTHY[phase] + 40.0, "collective": 2.0}
    fast = HEALTHY | {"collective": 42.0}
    bottleneck = bottleneck_of(
        tmp_path, training([fast] * 30, worker="rank0-5"), training([slow] * 30, worker="rank1-6")
    )
    assert (bottleneck.kind, bottleneck.phase) == ("communication", phase)
    assert bottleneck.message == f"other ranks wait for rank 1: 40 ms lost per step in {phase}"


def test_a_slow_rank_is_found_if_the_others_wait_in_backward(tmp_path) -> None:
    slow, fast = HEALTHY | {"data": 41.0}, HEALTHY | {"backward": 90.0}
    bottleneck = bottleneck_of(
        tmp_path, training([fast] * 30, worker="rank0-5"), training([slow] * 30, worker="rank1-6")
    )
    assert (bottleneck.kind, bottleneck.phase, bottleneck.evidence["straggler"]["rank"]) == ("communication", "data", 1)


def test_equal_ranks_are_not_stragglers(tmp_path) -> None:
    breakdown = breakdown_of(tmp_path, *(training([HEALTHY] * 30, worker=f"rank{rank}-{rank}") for rank in range(3)))
    assert breakdown.ranks is not None
    assert breakdown.ranks.straggler is None
    assert breakdown.ranks.by_rank[2]["backward"] == pytest.approx(50.0)


def test_full_system_memory_is_a_memory_bottleneck(tmp_path) -> None:
    bottleneck = bottleneck_of(tmp_path, training([HEALTHY] * 30), list(sampled({MEMORY: [98.0] * 6})))
    assert (bottleneck.kind, bottleneck.message) == ("memory", "system memory is full: 98 % (95th percentile)")


def test_an_idle_gpu_in_compute_phases_is_a_host_bottleneck(tmp_path) -> None:
    busy, idle = ([value] * 6 for value in (95.0, 20.0))
    bottleneck = bottleneck_of(tmp_path, training([HEALTHY] * 40), list(sampled({gpu(0): idle, CPU: busy})))
    assert (bottleneck.kind, bottleneck.message[:23]) == ("host", "GPU utilization is 20 %")
    (tmp_path / "busy").mkdir()
    assert bottleneck_of(tmp_path / "busy", training([HEALTHY] * 40), list(sampled({gpu(0): busy}))).kind == "compute"


def test_without_steps_there_is_no_bottleneck(tmp_path) -> None:
    breakdown = breakdown_of(tmp_path, list(sampled({CPU: [99.0] * 6})))
    assert (breakdown.bottleneck, breakdown.ranks, breakdown.to_dict()["phases"]) == (None, None, [])


def test_the_first_step_is_excluded(tmp_path) -> None:
    first = HEALTHY | {"data": 60_000.0}
    assert bottleneck_of(tmp_path, training([first, *[HEALTHY] * 30])).kind == "compute"


def test_the_parts_of_a_job_add_up(tmp_path) -> None:
    begin = START_NS + 5 * SECOND_NS
    job = breakdown_of(tmp_path, training([HEALTHY] * 100, start_ns=begin)).job
    assert (job.initialization_seconds, job.loop_seconds) == pytest.approx((5.0, 9.1))
    assert job.initialization_seconds + job.loop_seconds + job.finalization_seconds == pytest.approx(job.seconds)
