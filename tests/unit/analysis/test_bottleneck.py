"""Bottleneck of a run: each kind on synthetic runs; a healthy run is limited by compute."""

from __future__ import annotations

import pytest
from timelines import CPU, MEMORY, gpu, merge_by_time, sampled, step_rows, training

from leadline.analysis.bottleneck import Bottleneck, find_bottleneck
from leadline.analysis.time_breakdown import TimeBreakdown, read_time_breakdown
from leadline.reader.run import Run
from leadline.records.formatting import phase_label
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


def test_compute_is_no_bottleneck_beside_a_finding_of_waits_for_data(tmp_path) -> None:
    breakdown = breakdown_of(tmp_path, training([HEALTHY] * 30))
    assert breakdown.bottleneck is not None
    assert breakdown.bottleneck.kind == "compute"
    system = Run(str(tmp_path / "run")).system_metrics()
    assert find_bottleneck(breakdown.steps, system, None, {"input_bound": "fired"}) is None


PLAIN = {"host": 100.0, "forward": 2.0, "backward": 3.0, "optimizer": 1.0}
"""A loop without a data loader."""


@pytest.mark.parametrize(
    ("cpu_ms", "kind", "words"),
    [
        ({"host": 1.0, "forward": 2.0}, "input", "a wait of the script before it calls the model"),
        ({"host": 19.9}, "input", "a wait of the script before it calls the model"),
        ({"host": 20.0}, "host", "loading data, callbacks or other code"),
        ({"host": 99.0}, "host", "loading data, callbacks or other code"),
        (None, "host", "loading data, callbacks or other code"),
    ],
)
def test_time_before_the_model_is_called_is_never_compute(tmp_path, cpu_ms, kind: str, words: str) -> None:
    bottleneck = bottleneck_of(tmp_path, training([PLAIN] * 30, cpu_ms=cpu_ms))
    assert (bottleneck.kind, bottleneck.phase) == (kind, "host")
    assert words in bottleneck.message


def test_a_wait_before_the_model_may_be_for_results_that_are_computed_later(tmp_path) -> None:
    breakdown = breakdown_of(tmp_path, training([PLAIN] * 30, cpu_ms={"host": 1.0, "forward": 2.0}))
    system = Run(str(tmp_path / "run")).system_metrics()
    found = find_bottleneck(breakdown.steps, system, None, computes_later=True)
    assert found is not None
    assert (found.kind, found.phase) == ("host", "host")
    assert found.message.endswith("for its data, or for what the last step computes")


@pytest.mark.parametrize("waited_ms", [1.9, 2.1])
def test_short_waits_are_no_bottleneck(tmp_path, waited_ms: float) -> None:
    bottleneck = bottleneck_of(tmp_path, training([{"data": waited_ms, "host": 0.1, "forward": 2.0}] * 30))
    assert bottleneck.kind == ("input" if waited_ms > 2 else "compute")


@pytest.mark.parametrize(("cpu_ms", "is_waiting"), [(19.0, True), (20.0, False)])
def test_a_compute_phase_without_processor_time_is_a_wait(tmp_path, cpu_ms: float, is_waiting: bool) -> None:
    steps = [{"host": 1.0, "forward": 100.0, "backward": 3.0}] * 30
    bottleneck = bottleneck_of(tmp_path, training(steps, cpu_ms={"forward": cpu_ms, "backward": 3.0}))
    assert (bottleneck.kind, bottleneck.phase) == ("host" if is_waiting else "compute", "forward")
    if is_waiting:
        expected = "96 % of the step time is forward, of which the training's thread waits 81 %"
        assert bottleneck.message == expected


COMPUTING = {"data": 0.1, "forward": 100.0, "backward": 100.0}
USED = {"forward": 19.0, "backward": 20.0, "data": 0.1}


def test_a_thread_that_waits_for_a_processor_is_computing(tmp_path) -> None:
    delayed = {"forward": 81.0, "backward": 80.0}
    breakdown = breakdown_of(tmp_path, training([COMPUTING] * 30, cpu_ms=USED, delayed_ms=delayed))
    assert breakdown.bottleneck is None  # and not "host", as without the times for which it waited
    assert breakdown.overload is not None
    told = "the machine was overloaded: the training's thread waited for a CPU in 80 % of the time after the first step"
    assert breakdown.to_dict()["overload"]["message"] == f"{told}; timings are not reliable"
    (tmp_path / "unknown").mkdir()
    unknown = breakdown_of(tmp_path / "unknown", training([COMPUTING] * 30, cpu_ms=USED))
    assert unknown.bottleneck is not None
    assert (unknown.bottleneck.kind, unknown.overload, unknown.to_dict()["overload"]) == ("host", None, None)


def test_an_overloaded_machine_leaves_undecided_whether_the_training_waits_for_its_data(tmp_path) -> None:
    cpu, delayed = {"data": 5.0, "forward": 10.0}, {"data": 45.0, "forward": 40.0}
    steps = training([{"data": 100.0, "forward": 50.0}] * 30, cpu_ms=cpu, delayed_ms=delayed)
    breakdown = breakdown_of(tmp_path, steps)
    assert breakdown.bottleneck is None
    message = breakdown.to_dict()["overload"]["message"]
    assert message.endswith("timings are not reliable, and whether the training waits for its data is undecided")


def test_a_thread_that_loads_its_data_itself_is_judged_on_an_overloaded_machine(tmp_path) -> None:
    cpu, delayed = {"data": 5.0, "forward": 10.0}, {"data": 45.0, "forward": 40.0}
    steps = training([{"data": 100.0, "forward": 50.0}] * 30, cpu_ms=cpu, delayed_ms=delayed)
    breakdown = breakdown_of(tmp_path, steps)
    system = Run(str(tmp_path / "run")).system_metrics()
    found = find_bottleneck(breakdown.steps, system, None, loader=(0, 4))
    assert found is not None
    assert (found.kind, found.message) == ("input", "67 % of the step time is waiting for data")
    assert found.suggestion.startswith("a num_workers of the DataLoader above 0")
    assert find_bottleneck(breakdown.steps, system, None, loader=(2, 4)) is None
    assert find_bottleneck(breakdown.steps, system, None, {"input_bound": "clear"}, loader=(0, 4)) is None
    known = RunWriter(tmp_path / "known", batch_rows=5).write_all(merge_by_time(steps))
    known.end()
    known.write_node("node", cpu_count=4)
    known.write_worker("rank0-1", state="ended", facts={"dataloader_workers": 0})
    overload = read_time_breakdown(known.path).overload
    assert overload is not None
    assert "undecided" not in overload.message


@pytest.mark.parametrize("delay_ms", [0.0, 10.0, 45.0, 100.0])
@pytest.mark.parametrize(
    ("quiet", "kind", "phase"),
    [
        ({"data": 50.0, "forward": 25.0, "backward": 25.0}, "input", "data"),
        ({"host": 50.0, "forward": 25.0, "backward": 25.0}, "input", "host"),
        ({"data": 1.0, "forward": 70.0, "backward": 30.0}, "host", "forward"),
        ({"data": 1.0, "forward": 30.0, "backward": 70.0}, "compute", "backward"),
    ],
)
def test_the_bottleneck_is_that_of_an_idle_machine_or_unknown(
    tmp_path, quiet: dict[str, float], kind: str, phase: str, delay_ms: float
) -> None:
    used = {name: 1.0 if name in ("data", "host") or (kind, name) == ("host", phase) else quiet[name] for name in quiet}
    delayed = {name: delay_ms * used[name] / sum(used.values()) for name in quiet}
    noisy = {name: quiet[name] + delayed[name] for name in quiet}
    breakdown = breakdown_of(tmp_path, training([noisy] * 40, cpu_ms=used, delayed_ms=delayed))
    waited_most = breakdown.overload is not None and delay_ms > sum(used.values())
    assert waited_most == (breakdown.bottleneck is None)
    if breakdown.bottleneck is not None:
        assert (breakdown.bottleneck.kind, breakdown.bottleneck.phase) == (kind, phase)


def test_every_surface_states_the_share_of_the_recorded_time(tmp_path) -> None:
    delayed = {"forward": 40.0}
    waiting = {"data": 60.0, "forward": 90.0}
    steps = training([waiting] * 40, cpu_ms={"data": 1.0, "forward": 50.0}, delayed_ms=delayed)
    breakdown = breakdown_of(tmp_path, steps)
    assert breakdown.bottleneck is not None
    assert breakdown.bottleneck.message == "40 % of the step time is waiting for data"
    assert {part["phase"]: round(part["share"], 3) for part in breakdown.to_dict()["phases"]}["data"] == 0.4


def test_evaluation_counts_in_the_share_as_in_the_time_breakdown(tmp_path) -> None:
    steps = training([{"data": 60.0, "forward": 40.0}] * 31)
    evaluated = step_rows(40, START_NS + 4 * SECOND_NS, {"forward": 1_000.0}, mode="eval")
    breakdown = breakdown_of(tmp_path, merge_by_time(steps, evaluated))
    assert breakdown.bottleneck is not None
    assert breakdown.bottleneck.message == "45 % of the step time is waiting for data"
    shares = {part["phase"]: round(part["share"], 2) for part in breakdown.to_dict()["phases"]}
    assert shares == {"data": 0.45, "forward": 0.3, "eval": 0.25}


@pytest.mark.parametrize(("busy_ms", "is_named"), [(180.0, True), (30.0, False)])
def test_delays_between_the_phases_are_left_out(tmp_path, busy_ms: float, is_named: bool) -> None:
    used = {"data": 0.1, "forward": 100.0, "backward": 100.0, "other": busy_ms}
    steps = training([COMPUTING] * 30, other_ms=busy_ms + 150.0, cpu_ms=used, delayed_ms={"other": 150.0})
    bottleneck = bottleneck_of(tmp_path, steps)
    assert (bottleneck.phase == "other") == is_named


@pytest.mark.parametrize(
    ("waits", "is_named"),
    [
        ([0.0] * 40 + [100.0] * 20, True),  # it comes to a third, at the end
        ([100.0] * 20 + [0.0] * 40, True),  # it was more, and is a third
        ([100.0] * 20 + [0.0] * 70, True),  # it has not fallen to a fifth
        ([100.0] * 20 + [0.0] * 85, False),
        ([0.0] * 60 + [100.0] * 20, False),  # a quarter, and never more
        ([0.0] * 30 + [9_000.0] + [0.0] * 30, False),  # a single step
    ],
)
def test_a_bottleneck_is_named_from_thirty_percent_until_it_falls_to_twenty(
    tmp_path, waits: list[float], is_named: bool
) -> None:
    steps = [{"data": wait, "forward": 100.0 - min(wait, 99.0)} for wait in waits]
    bottleneck = bottleneck_of(tmp_path, training(steps))
    assert (bottleneck.kind == "input") == is_named


def test_a_run_whose_rule_is_clear_is_not_called_input_bound(tmp_path) -> None:
    breakdown = breakdown_of(tmp_path, training([{"data": 50.0, "forward": 50.0}] * 30))
    system = Run(str(tmp_path / "run")).system_metrics()
    (tmp_path / "host").mkdir()
    host = breakdown_of(tmp_path / "host", training([PLAIN] * 30, cpu_ms={"host": 1.0})).steps
    kinds = {
        (state, name): bottleneck.kind
        for state in ("clear", "undecided")
        for name, steps in (("data", breakdown.steps), ("host", host))
        if (bottleneck := find_bottleneck(steps, system, None, {"input_bound": state})) is not None
    }
    assert kinds == {
        ("clear", "data"): "compute",
        ("clear", "host"): "host",
        ("undecided", "data"): "input",
        ("undecided", "host"): "input",
    }


@pytest.mark.parametrize(
    ("count", "delay_ms", "is_overloaded"), [(30, 30.0, True), (30, 29.9, False), (11, 30.0, True), (10, 30.0, False)]
)
def test_the_machine_is_overloaded_from_thirty_percent_of_a_second(
    tmp_path, count: int, delay_ms: float, is_overloaded: bool
) -> None:
    steps = training(
        [{"host": 1.0, "forward": 99.0}] * count, cpu_ms={"forward": 60.0}, delayed_ms={"forward": delay_ms}
    )
    assert (breakdown_of(tmp_path, steps).overload is not None) == is_overloaded


def test_time_before_backward_is_not_compute_if_the_call_of_the_model_was_not_seen(tmp_path) -> None:
    assert breakdown_of(tmp_path, training([{"forward": 50.0, "backward": 50.0}] * 30)).bottleneck is None
    (tmp_path / "known").mkdir()
    known = training([{"host": 0.1, "forward": 50.0, "backward": 50.0}] * 30)
    assert bottleneck_of(tmp_path / "known", known).kind == "compute"
    (tmp_path / "small").mkdir()
    small = training([{"forward": 20.0, "backward": 80.0}] * 30)
    assert bottleneck_of(tmp_path / "small", small).phase == "backward"


def test_nothing_is_said_if_no_phase_is_large(tmp_path) -> None:
    steps = [{"data": 25.0, "host": 25.0, "forward": 10.0, "backward": 15.0}] * 30
    assert breakdown_of(tmp_path, training(steps, other_ms=25.0)).bottleneck is None


def test_the_first_step_counts_in_no_share(tmp_path) -> None:
    steps = [{"data": 1.0, "forward": 9_000.0, "backward": 5.0}, *[{"data": 1.0, "forward": 3.0, "backward": 6.0}] * 30]
    breakdown = breakdown_of(tmp_path, training(steps))
    assert [phase["phase"] for phase in breakdown.to_dict()["phases"]] == ["backward", "forward", "data"]
    assert breakdown.bottleneck is not None
    assert breakdown.bottleneck.message == "90 % of the step time is compute, most of it backward"


def test_suggestions_for_boosted_trees_differ(tmp_path) -> None:
    writer = RunWriter(tmp_path / "run").write_all(training([{"optimizer": 90.0, "data": 1.0}] * 30))
    writer.end()
    writer.write_worker("rank0-1", framework="xgboost 3.2.0", state="ended")
    bottleneck = read_time_breakdown(writer.path).bottleneck
    assert bottleneck is not None
    assert bottleneck.message == "99 % of the step time is compute, most of it building the trees"
    assert (bottleneck.kind, "nthread" in bottleneck.suggestion, "torch" in bottleneck.suggestion) == (
        "compute",
        True,
        False,
    )
    assert "nthread" not in bottleneck_of(tmp_path / "network", training([HEALTHY] * 30)).suggestion


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
    assert bottleneck.message == f"other ranks wait for rank 1: 40 ms lost per step in {phase_label(phase)}"


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


@pytest.mark.parametrize(
    ("framework", "suggestion"),
    [
        ("torch 2.13.0", "DataLoader"),
        ("keras 3.15.0 (PyTorch)", "DataLoader"),
        ("tensorflow 2.21.0 (Keras 3.15.0)", "tf.data.AUTOTUNE"),
        ("jax 0.10.0", "a loader with workers"),
        ("mxnet 1.9.1", "gluon.data.DataLoader"),
    ],
)
def test_suggestions_are_in_the_words_of_the_framework(tmp_path, framework: str, suggestion: str) -> None:
    breakdown = breakdown_of(tmp_path, training([HEALTHY | {"data": 90.0}] * 30))
    system = Run(str(tmp_path / "run")).system_metrics()
    bottleneck = find_bottleneck(breakdown.steps, system, None, framework=framework)
    assert bottleneck is not None
    assert suggestion in bottleneck.suggestion
