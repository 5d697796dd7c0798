"""What bound a run: each cause is named, on stories that are made so; a healthy one is bound by computing."""

from __future__ import annotations

import pytest

from leadline.analysis.bottleneck import Bottleneck
from leadline.analysis.time_breakdown import TimeBreakdown, read_time
from leadline.testing.runs import SECOND_NS, START_NS, Part, RunWriter
from leadline.testing.timelines import CPU, MEMORY, gpu, in_time, sampled, training

HEALTHY = {"data": 1.0, "forward": 30.0, "backward": 50.0, "optimizer": 10.0}


def time_of(tmp_path, *stories: list[Part]) -> TimeBreakdown:
    writer = RunWriter(tmp_path / "run", batch_rows=5).write_all(in_time(*stories))
    writer.end()
    return read_time(writer.path)


def bound_of(tmp_path, *stories: list[Part]) -> Bottleneck:
    bound = time_of(tmp_path, *stories).bound
    assert bound is not None
    assert bound.message
    assert bound.suggestion
    return bound


@pytest.mark.parametrize(
    ("changed", "kind", "phase", "said"),
    [
        ({}, "compute", "backward", "99 % of the step time is computing, most of it backward"),
        ({"data": 90.0}, "input", "data", "50 % of the step time is waiting for data"),
        ({"collective": 60.0}, "communication", "collective", "40 % of the step time is collectives between ranks"),
        ({"checkpoint": 60.0}, "host", "checkpoint", "40 % of the step time is saving checkpoints"),
        ({"copy": 60.0}, "host", "copy", "40 % of the step time is copying to the device"),
    ],
)
def test_the_largest_part_is_named(tmp_path, changed: dict[str, float], kind: str, phase: str, said: str) -> None:
    bound = bound_of(tmp_path, training([HEALTHY | changed] * 30))
    assert (bound.kind, bound.phase, bound.message) == (kind, phase, said)


def test_where_trees_train_what_to_try_is_of_trees(tmp_path) -> None:
    writer = RunWriter(tmp_path / "run").write_all(training([{"optimizer": 90.0, "data": 1.0}] * 30))
    writer.end()
    writer.write_worker("rank0-1", framework="xgboost 3.2.0", state="ended")
    bound = read_time(writer.path).bound
    assert bound is not None
    assert (bound.kind, "nthread" in bound.suggestion, "torch" in bound.suggestion) == ("compute", True, False)
    assert "torch" in bound_of(tmp_path / "network", training([HEALTHY] * 30)).suggestion


def test_where_trees_train_forward_is_scoring(tmp_path) -> None:
    writer = RunWriter(tmp_path / "run").write_all(training([{"optimizer": 40.0, "forward": 60.0}] * 30))
    writer.end()
    writer.write_worker("rank0-1", framework="lightgbm 4.7.0", state="ended")
    bound = read_time(writer.path).bound
    assert bound is not None
    assert (bound.kind, bound.phase) == ("compute", "forward")
    assert bound.message == "60 % of the time of a round is scoring the evaluation sets"
    assert "fewer metrics" in bound.suggestion


def test_a_slow_loop_around_the_phases_is_the_host(tmp_path) -> None:
    bound = bound_of(tmp_path, training([HEALTHY] * 30, other_ms=80.0))
    assert (bound.kind, bound.phase) == ("host", "other")


def test_a_periodic_slow_step_is_told_by_the_few_steps_that_it_is_in(tmp_path) -> None:
    slow = [HEALTHY | ({"checkpoint": 3000.0} if step % 25 == 24 else {}) for step in range(100)]
    bound = bound_of(tmp_path, training(slow))
    assert bound.message == "57 % of the step time is saving checkpoints, most of it in 4 of 99 steps"


@pytest.mark.parametrize("phase", ["data", "forward", "backward"])
def test_a_slow_rank_is_named_with_its_phase(tmp_path, phase: str) -> None:
    slow = HEALTHY | {phase: HEALTHY[phase] + 40.0, "collective": 2.0}
    fast = HEALTHY | {"collective": 42.0}
    bound = bound_of(tmp_path, training([fast] * 30, worker="rank0-5"), training([slow] * 30, worker="rank1-6"))
    assert (bound.kind, bound.phase) == ("communication", phase)
    assert bound.message == f"the ranks wait for rank 1, which loses 40 ms a step in {phase}"


def test_a_slow_rank_is_found_where_the_others_wait_within_backward(tmp_path) -> None:
    slow, fast = HEALTHY | {"data": 41.0}, HEALTHY | {"backward": 90.0}
    bound = bound_of(tmp_path, training([fast] * 30, worker="rank0-5"), training([slow] * 30, worker="rank1-6"))
    assert (bound.kind, bound.phase, bound.evidence["straggler"]["rank"]) == ("communication", "data", 1)


def test_ranks_that_are_alike_are_no_stragglers(tmp_path) -> None:
    found = time_of(tmp_path, *(training([HEALTHY] * 30, worker=f"rank{rank}-{rank}") for rank in range(3)))
    assert found.ranks is not None
    assert found.ranks.straggler is None
    assert found.ranks.by_rank[2]["backward"] == pytest.approx(50.0)


def test_a_full_machine_is_memory(tmp_path) -> None:
    bound = bound_of(tmp_path, training([HEALTHY] * 30), list(sampled({MEMORY: [98.0] * 6})))
    assert (bound.kind, bound.message) == ("memory", "the machine's memory is full: 98 % (95th percentile)")


def test_an_idle_gpu_while_the_training_computes_is_the_host(tmp_path) -> None:
    busy, idle = ([value] * 6 for value in (95.0, 20.0))
    bound = bound_of(tmp_path, training([HEALTHY] * 40), list(sampled({gpu(0): idle, CPU: busy})))
    assert (bound.kind, bound.message[:23]) == ("host", "the GPU is used to 20 %")
    (tmp_path / "busy").mkdir()
    assert bound_of(tmp_path / "busy", training([HEALTHY] * 40), list(sampled({gpu(0): busy}))).kind == "compute"


def test_without_steps_nothing_is_said(tmp_path) -> None:
    found = time_of(tmp_path, list(sampled({CPU: [99.0] * 6})))
    assert (found.bound, found.ranks, found.spoken()["phases"]) == (None, None, [])


def test_the_first_step_is_left_out(tmp_path) -> None:
    first = HEALTHY | {"data": 60_000.0}
    assert bound_of(tmp_path, training([first, *[HEALTHY] * 30])).kind == "compute"


def test_the_parts_of_a_job_add_up(tmp_path) -> None:
    begin = START_NS + 5 * SECOND_NS
    job = time_of(tmp_path, training([HEALTHY] * 100, start_ns=begin)).job
    assert (job.initialization_seconds, job.loop_seconds) == pytest.approx((5.0, 9.1))
    assert job.initialization_seconds + job.loop_seconds + job.finalization_seconds == pytest.approx(job.seconds)
