"""Steps and phases from timeline rows, compared with a plain loop."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from by_loop import phases_of_steps
from timelines import MS, step_rows, training

from leadline.analysis.steps import read_steps
from leadline.reader.run import open_run
from leadline.records.event import Event
from leadline.records.names import MODES, PARTS
from leadline.testing.runs import START_NS, Part, RunWriter, TimelineEvent


def steps_of(tmp_path, run_parts: list[Part]):
    return read_steps(open_run(RunWriter(tmp_path / "run", batch_rows=7).write_all(run_parts).end().path).timeline())


def random_parts(seed: int) -> list[Part]:
    chance = random.Random(seed)
    run_parts: list[Part] = []
    for worker in ("rank0-11", "rank1-12"):
        at_ns = START_NS
        for step in range(40):
            mode = "eval" if chance.random() < 0.2 else "train"
            phases = {name: chance.uniform(0, 20) for name in ("data", "forward", "backward") if chance.random() < 0.9}
            within = {}
            if "backward" in phases:
                phases["collective"], within = chance.uniform(0, phases["backward"]), {"collective": "backward"}
            run_parts += step_rows(
                step, at_ns, phases, worker=worker, mode=mode, within=within, other_ms=chance.uniform(0, 5)
            )
            at_ns += 100 * MS
    chance.shuffle(run_parts)
    return run_parts


@pytest.mark.parametrize("seed", range(5))
def test_steps_equal_a_plain_loop(tmp_path, seed: int) -> None:
    run_parts = random_parts(seed)
    steps, expected = steps_of(tmp_path, run_parts), phases_of_steps(run_parts)
    assert len(steps) == len(expected)
    for place in range(len(steps)):
        worker, mode = steps.workers[steps.worker[place]], MODES[steps.mode[place]]
        cell = expected[worker, mode, int(steps.step[place])]
        assert steps.duration_ns[place] == cell["step"]
        for at, name in enumerate(PARTS):
            assert steps.phases[place, at] == pytest.approx(cell.get(name, 0.0), abs=1.0)


def test_overhead_is_a_separate_part(tmp_path) -> None:
    rows = step_rows(0, START_NS, {"forward": 20.0, "backward": 30.0}, other_ms=9.0)
    run_parts = [
        replace(each, event=replace(each.event, args={"own_ns": int(4 * MS)}))
        if isinstance(each, TimelineEvent) and each.event.name == "step"
        else each
        for each in rows
    ]
    steps = steps_of(tmp_path, run_parts)
    found = {name: steps.phases[0, at] / MS for at, name in enumerate(PARTS)}
    assert (found["watching"], found["other"]) == (4.0, pytest.approx(5.0))


def test_the_phases_add_up_to_the_step(tmp_path) -> None:
    steps = steps_of(tmp_path, random_parts(7))
    assert steps.phases.sum(axis=1) == pytest.approx(steps.duration_ns, abs=2.0)


def test_a_step_counts_with_its_weight(tmp_path) -> None:
    run_parts = [
        TimelineEvent(Event("step", 0, START_NS, 10 * MS, "train", args={"own_ns": 5, "every": 4})),
        TimelineEvent(Event("data", 0, START_NS, 6 * MS, "train")),
        TimelineEvent(Event("step", 9, START_NS + 50 * MS, 100 * MS, "train")),
        TimelineEvent(Event("collective", 5, START_NS, 6 * MS, "train")),
    ]
    steps = steps_of(tmp_path, run_parts)
    assert steps.count() == 5
    assert steps.seconds() == pytest.approx(0.14)
    assert steps.seconds_by_phase() == pytest.approx({"data": 0.024, "watching": 2e-8, "other": 0.11599998}, abs=1e-9)


def test_a_timeline_without_steps_has_none(tmp_path) -> None:
    run_parts = [
        TimelineEvent(Event("clock_owner", 3, START_NS)),
        TimelineEvent(Event("setup", 0, START_NS, MS, "initialization")),
    ]
    steps = steps_of(tmp_path, run_parts)
    assert (len(steps), steps.seconds(), steps.seconds_by_phase()) == (0, 0.0, {})
    (tmp_path / "other").mkdir()
    assert len(steps_of(tmp_path / "other", [])) == 0


def test_steps_are_selected_by_worker_and_mode(tmp_path) -> None:
    run_parts = training([{"data": 1.0}] * 3) + training([{"data": 2.0}] * 2, worker="rank1-2")
    steps = steps_of(tmp_path, run_parts)
    assert steps.only(worker="rank1-2").step.tolist() == [0, 1]
    assert steps.only(mode="train").count() == 5
    assert len(steps.only(mode="eval")) == len(steps.only(worker="rank7-1")) == 0


def test_the_run_delay_is_that_of_each_thread_between_the_steps_that_have_it(tmp_path) -> None:
    totals = {
        "rank0-1": {0: (100.0, 10.0), 2: (130.0, 30.0), 3: (5.0, 1.0), 5: (20.0, 6.0)},  # another thread from step 3
        "rank1-2": {0: (400.0, 0.0), 4: (440.0, 10.0)},
    }
    run_parts: list[Part] = []
    for worker, known in totals.items():
        for step in range(6):
            ready = dict(zip(("ready", "run_delay"), known[step], strict=True)) if step in known else None
            at_ns = START_NS + step * 10 * MS
            run_parts += step_rows(step, at_ns, {"forward": 10.0}, worker=worker, ready_ms=ready)
    delay = steps_of(tmp_path, run_parts).run_delay()
    assert delay is not None
    assert delay.share == pytest.approx((20 + 5 + 10) / (20 + 20 + 40), rel=1e-5)  # float64 of ns since the epoch
    assert delay.ready_share == pytest.approx((20 + 5 + 10) / (30 + 15 + 40))


@pytest.mark.parametrize("known", [(), (3,)])
def test_the_run_delay_needs_two_steps_that_have_it(tmp_path, known: tuple[int, ...]) -> None:
    run_parts: list[Part] = []
    for step in range(6):
        ready = {"ready": 9.0, "run_delay": 1.0} if step in known else None
        run_parts += step_rows(step, START_NS + step * 10 * MS, {"forward": 10.0}, ready_ms=ready)
    assert steps_of(tmp_path, run_parts).run_delay() is None
