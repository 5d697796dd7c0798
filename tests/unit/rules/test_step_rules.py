"""Rules on step times: their bounds, exceptions, and the phases that they name."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_machine_rules import evaluate
from timelines import CPU, MS, merge_by_time, resident, sampled, training

from leadline.judge.evaluator import Evaluator
from leadline.records.event import TRAINING, Event
from leadline.rules.registry import find_rule
from leadline.testing.runs import START_NS, Part, RunWriter, TimelineEvent

STEP = {"data": 1.0, "forward": 30.0, "backward": 50.0, "optimizer": 10.0}


def beats(count: int = 120) -> list[Part]:
    return list(sampled({CPU: [50.0] * count}))


def of_ranks(*phases: dict[str, float], count: int = 60) -> list[Part]:
    timelines = [
        training([rank_phases] * count, worker=f"rank{rank}-{rank + 1}") for rank, rank_phases in enumerate(phases)
    ]
    return merge_by_time(*timelines, beats())


def test_the_share_and_the_times_of_a_wait_are_of_the_same_steps(tmp_path) -> None:
    steps = [{"data": 5.0, "forward": 5.0}] * 50
    steps[40] = {"data": 9_000.0, "forward": 5_000.0}  # the loader's workers start, in a step that is long otherwise
    (_, _, (opened, *_)) = evaluate(
        tmp_path, "input_bound", merge_by_time(training([{"forward": 1.0}, *steps]), beats())
    )
    assert (
        opened["message"]
        == "50 % of the time of steps 1 to 50, the longest wait aside, is waiting for data: 5 ms of 10 ms per step"
    )


def test_a_training_without_a_loader_is_not_clear_if_the_host_works_before_the_model(tmp_path) -> None:
    host = merge_by_time(training([{"host": 4.0, "forward": 6.0}] * 60), beats())
    verdict, why, _ = evaluate(tmp_path, "input_bound", host)
    assert verdict == "undecided"
    assert "no data loader was seen, and 40 % of the step time precedes the call of the model" in why
    compute = merge_by_time(training([{"host": 3.0, "forward": 7.0}] * 60), beats())
    assert evaluate(tmp_path / "compute", "input_bound", compute)[0] == "clear"


@pytest.mark.parametrize(("busy_ms", "is_waiting"), [(1.5, True), (1.7, False)])
def test_a_wait_before_the_model_is_said_to_be_one(tmp_path, busy_ms: float, is_waiting: bool) -> None:
    """A generator of the script, which cannot be told from another wait; the first line says the same."""
    rows = training([{"host": 8.0, "forward": 2.0}] * 60, cpu_ms={"host": busy_ms, "forward": 2.0})
    verdict, why, _ = evaluate(tmp_path, "input_bound", merge_by_time(rows, beats()))
    assert verdict == "undecided"
    assert why.startswith("no data loader was seen, and 80 % of the step time ")
    said = "is a wait of the script before it calls the model: for its data, most likely"
    assert why.endswith(said) == is_waiting


@pytest.mark.parametrize(
    ("data_ms", "delay_ms", "verdict"),
    [(6.0, 5.9, "fired"), (6.0, 6.1, "undecided"), (16.0, 9.5, "undecided"), (19.0, 9.5, "fired")],
)
def test_waits_for_data_on_an_overloaded_machine_say_nothing(
    tmp_path, data_ms: float, delay_ms: float, verdict: str
) -> None:
    steps = [{"data": data_ms, "forward": 6.0 + delay_ms}] * 60
    cpu_ms = {"data": 0.0, "forward": 6.0}
    rows = training(steps, cpu_ms=cpu_ms, delayed_ms={"forward": delay_ms})
    found, why, _ = evaluate(tmp_path, "input_bound", merge_by_time(rows, beats()))
    assert found == verdict
    assert ("overloaded" in why) == (verdict == "undecided")


@pytest.mark.parametrize(("workers", "verdict"), [(0, "fired"), (2, "undecided")])
def test_only_processes_of_a_loader_may_have_waited_for_a_processor(tmp_path, workers: int, verdict: str) -> None:
    steps = [{"data": 6.0, "forward": 12.1}] * 60
    rows = training(steps, cpu_ms={"data": 0.0, "forward": 6.0}, delayed_ms={"forward": 6.1})
    facts = {"dataloader_workers": workers}
    assert judged(tmp_path / "run", "input_bound", facts, merge_by_time(rows, beats())) == verdict


@pytest.mark.parametrize(("delay_ms", "verdict"), [(0.0, "fired"), (5.0, "clear")])
def test_a_short_wait_that_an_overloaded_machine_makes_long_is_no_wait(tmp_path, delay_ms: float, verdict: str) -> None:
    steps = [{"data": 3.5, "forward": 7.0}] * 60
    rows = training(steps, cpu_ms={"data": 0.0, "forward": 7.0 - delay_ms}, delayed_ms={"forward": delay_ms})
    facts = {"dataloader_workers": 0}
    assert judged(tmp_path / "run", "input_bound", facts, merge_by_time(rows, beats())) == verdict


def test_dataloader_does_not_apply_without_a_loader(tmp_path) -> None:
    without = merge_by_time(training([{"host": 1.0, "forward": 9.0}] * 60), beats())
    verdict, why, _ = evaluate(tmp_path, "dataloader", without)
    assert (verdict, why) == ("not_applicable", "the training uses no DataLoader")


def test_a_share_on_the_bound_and_short_waits_are_clear(tmp_path) -> None:
    on_bound = training([{"data": 30.0, "forward": 70.0}] * 80)
    assert evaluate(tmp_path, "input_bound", merge_by_time(on_bound, beats()))[0] == "clear"
    short = [{"data": 1.9, "forward": 1.0}] * 2000
    (tmp_path / "short").mkdir()
    assert evaluate(tmp_path / "short", "input_bound", merge_by_time(training(short), beats()))[0] == "clear"


def test_the_first_step_and_one_long_wait_are_ignored(tmp_path) -> None:
    waits = [20_000.0] + [1.0] * 30 + [4_000.0] + [1.0] * 70
    scenario = training([{**STEP, "data": wait} for wait in waits])
    assert evaluate(tmp_path, "input_bound", merge_by_time(scenario, beats(10)))[0] == "clear"


def test_a_loader_that_stalls_in_bursts_is_found(tmp_path) -> None:
    scenario = training([{**STEP, "data": 300.0 if step % 4 == 0 else 0.0} for step in range(120)])
    verdict, _, (opened, *_) = evaluate(tmp_path, "input_bound", merge_by_time(scenario, beats(10)))
    assert verdict == "fired"
    assert opened["worker"] == "rank0-1"


@pytest.mark.parametrize("phase", ["data", "forward", "backward", "optimizer", "checkpoint"])
def test_the_slow_rank_and_its_phase_are_named(tmp_path, phase: str) -> None:
    slow = {**STEP, phase: STEP.get(phase, 0.0) + 40.0, "collective": 1.0}
    fast = {**STEP, "collective": 41.0}
    _, _, (opened, *_) = evaluate(tmp_path, "straggler", of_ranks(fast, fast, slow))
    assert (opened["evidence"]["rank"], opened["evidence"]["phase"]) == (2, phase)
    assert opened["evidence"]["lost_ms"] == pytest.approx(40.0)
    assert opened["worker"] == "rank2-3"


def test_a_rank_that_others_wait_for_in_backward_is_found(tmp_path) -> None:
    slow, fast = {**STEP, "forward": 70.0}, {**STEP, "backward": 90.0}
    _, _, (opened, *_) = evaluate(tmp_path, "straggler", of_ranks(fast, slow))
    assert (opened["evidence"]["rank"], opened["evidence"]["phase"]) == (1, "forward")


@pytest.mark.parametrize(("more_ms", "verdict"), [(18.2, "clear"), (18.3, "fired")])
def test_a_rank_on_the_bound_is_not_slow(tmp_path, more_ms: float, verdict: str) -> None:
    """A step of 91 ms and a factor of 1.2: 18.2 ms more is still allowed."""
    slow = {**STEP, "forward": 30.0 + more_ms, "collective": 0.0}
    fast = {**STEP, "collective": more_ms}
    assert evaluate(tmp_path, "straggler", of_ranks(fast, slow))[0] == verdict


def test_losses_below_a_millisecond_are_ignored(tmp_path) -> None:
    fast, slow = {"forward": 1.0, "collective": 0.9}, {"forward": 1.9, "collective": 0.0}
    assert evaluate(tmp_path, "straggler", of_ranks(fast, slow, count=3000))[0] == "clear"


def test_a_rank_that_is_slow_at_times_is_not_a_straggler(tmp_path) -> None:
    scenario = merge_by_time(
        training([STEP] * 60, worker="rank0-1"),
        training([{**STEP, "forward": 30.0 if step % 15 == 0 else 90.0} for step in range(60)], worker="rank1-2"),
        beats(),
    )
    assert evaluate(tmp_path, "straggler", scenario)[0] == "clear"


def test_one_rank_has_nothing_to_wait_for(tmp_path) -> None:
    assert evaluate(tmp_path, "straggler", of_ranks(STEP)) == ("not_applicable", "one process", [])


def test_the_slow_phase_of_outliers_is_named(tmp_path) -> None:
    scenario = training([{**STEP, **({"checkpoint": 3000.0} if step % 40 == 39 else {})} for step in range(520)])
    _, _, (opened, *_) = evaluate(tmp_path, "step_outlier", merge_by_time(scenario, beats(10)))
    assert opened["evidence"]["phase"] == "checkpoint"
    assert opened["evidence"]["outliers"] == 11


def test_a_step_that_represents_many_counts_as_many(tmp_path) -> None:
    """In fast trainings one step in N is written: 30 rows for 240 steps, and one for each slow step."""
    rows = []
    for index in range(30):
        rows.append(
            TimelineEvent(Event("step", index * 8, START_NS + index * 100 * MS, MS, "train", args={"every": 8}))
        )
    for index in range(3):
        rows.append(TimelineEvent(Event("step", 1 + index * 8, START_NS + index * 900 * MS, 60 * MS, "train")))
    scenario = merge_by_time(rows, beats(20))
    _, _, (opened, *_) = evaluate(tmp_path, "step_outlier", scenario, n_outliers=2)
    assert opened["message"].startswith("3 of 243 steps")


def test_the_phase_that_grew_is_named_when_a_training_slows_down(tmp_path) -> None:
    scenario = training([{**STEP, "optimizer": 10.0 + step / 2} for step in range(200)])
    _, _, (opened, *_) = evaluate(tmp_path, "throughput_regression", merge_by_time(scenario, beats(10)), window=30)
    assert opened["evidence"]["phase"] == "optimizer"


def test_a_larger_model_that_is_trained_afterwards_is_no_slower_training(tmp_path) -> None:
    """200 steps of 91 ms, then 200 of 211 ms, with the event of another training between them."""
    steps = training([{**STEP, "optimizer": 10.0 if step < 200 else 130.0} for step in range(400)])
    starts = [part.event.start_ns for part in steps if isinstance(part, TimelineEvent) and part.event.step == 200]
    begun = TimelineEvent(Event(TRAINING, 200, min(starts), args={"number": 2, "train_step": 200}))
    for name in ("throughput_regression", "step_outlier"):
        options = {"window": 30} if name == "throughput_regression" else {"stddev": 0.9, "n_outliers": 100}
        alone, _, _ = evaluate(tmp_path / f"{name}-one", name, merge_by_time(steps, beats(65)), **options)
        split, _, _ = evaluate(tmp_path / f"{name}-two", name, merge_by_time([*steps, begun], beats(65)), **options)
        assert (name, alone, split) == (name, "fired", "clear")


@pytest.mark.parametrize(
    ("course", "verdict"),
    [
        ([1e9 + 5e6 * index for index in range(120)], "fired"),
        ([5e8 + 1e7 * index for index in range(30)], "fired"),
        ([1e9 + 1e7 * index for index in range(9)], "undecided"),
        ([1e9] * 60 + [2e9] * 60, "clear"),
        ([4.3e8, 4.33e8, *[4.37e8] * 12, 6.95e8, 7.16e8, 7.16e8], "clear"),
        ([1e9 + 1e8 * (index // 20) for index in range(120)], "fired"),
        ([1e9 + 5e4 * index for index in range(120)], "clear"),
        ([2e9 - 5e6 * index for index in range(120)], "clear"),
        ([1e9] * 9, "clear"),
        ([1e9] * 7, "undecided"),
    ],
    ids=[
        "leak",
        "leak of 1 MB a step",
        "suspected",
        "jump",
        "one jump late",
        "leak at each evaluation",
        "little",
        "falls",
        "short",
        "too short",
    ],
)
def test_only_ongoing_growth_is_a_leak(tmp_path, course: list[float], verdict: str) -> None:
    """Readings every 10 steps of 10 ms."""
    assert evaluate(tmp_path, "memory_growth", resident(course))[0] == verdict


def test_growth_is_judged_by_time_as_well(tmp_path) -> None:
    """One percent in 100 steps: little if they take 100 s, much if they take 10 ms."""
    course = [1e10 + 1e7 * index for index in range(60)]
    fast, slow = (resident(course, step_ns=step_ns) for step_ns in (MS // 10, 1000 * MS))
    (tmp_path / "fast").mkdir()
    assert evaluate(tmp_path / "fast", "memory_growth", fast)[0] == "fired"
    assert evaluate(tmp_path, "memory_growth", slow)[0] == "clear"


def test_a_cache_that_fills_looks_like_a_leak_until_it_is_full(tmp_path) -> None:
    course = [1e9 + 5e6 * min(index, 60) for index in range(160)]
    assert [event["event"] for event in evaluate(tmp_path, "memory_growth", resident(course))[2]] == [
        "opened",
        "closed",
    ]


def test_the_device_is_named(tmp_path) -> None:
    course = [1e9 + 5e6 * index for index in range(120)]
    _, _, (opened, *_) = evaluate(tmp_path, "memory_growth", resident(course, name="process/device_bytes"))
    assert opened["message"].startswith("the device memory of rank0-1 grows by ")


def test_data_loader_workers_are_compared_with_the_cores(tmp_path) -> None:
    rows = merge_by_time(training([STEP] * 80), beats(20))
    counts = (2, 3, 8, 9)
    verdicts = [judged(tmp_path / f"run{n}", "dataloader", {"dataloader_workers": n}, rows) for n in counts]
    assert verdicts == ["fired", "clear", "clear", "fired"]


def judged(folder: Path, rule: str, facts: dict[str, int], rows: list[Part]) -> str:
    """Return the verdict of a rule on a run whose worker has told facts, on a node with four processors."""
    writer = RunWriter(folder).write_all(rows)
    writer.end()
    writer.write_node("node", cpu_count=4)
    writer.write_worker("rank0-1", state="ended", facts=facts)
    judging = Evaluator(writer.path, [("it", find_rule(rule)())], started_ns=START_NS)
    return str(judging.advance(is_over=True).rules["it"]["verdict"])
