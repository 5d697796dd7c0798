"""When wishes are due, for subjects that are asked at every step or now and then."""

from __future__ import annotations

from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from leadline.records.plan import CaptureItem, Schedule
from leadline.training.recorder.schedule import CaptureSchedule


def due_steps(item: CaptureItem, asked: range) -> list[int]:
    due = CaptureSchedule([item])
    return [step for step in asked if due.at(step)]


def test_every_and_listed_steps() -> None:
    item = CaptureItem("weights", schedule=Schedule(every=4, start=2, end=13, steps=(1, 20)))
    assert due_steps(item, range(30)) == [1, 4, 8, 12, 20]


def test_an_optimizer_that_steps_every_fifth_step_is_not_missed() -> None:
    item = CaptureItem("weights", schedule=Schedule(every=50))
    assert due_steps(item, range(1, 200, 5)) == [1, 51, 101, 151]


def test_two_wishes() -> None:
    often, seldom = (CaptureItem("weights", schedule=Schedule(every=every)) for every in (2, 6))
    due = CaptureSchedule([often, seldom])
    assert [len(due.at(step)) for step in range(8)] == [2, 0, 1, 0, 1, 0, 2, 0]


def test_nothing_wished_is_never_due() -> None:
    assert due_steps(CaptureItem("weights"), range(5)) == []


def test_by_time(monkeypatch) -> None:
    now = [100.0]
    monkeypatch.setattr("leadline.training.recorder.schedule.time.monotonic", lambda: now[0])
    due = CaptureSchedule([CaptureItem("weights", schedule=Schedule(every_seconds=2.0))])
    found = []
    for step in range(8):
        found.append(bool(due.at(step)))
        now[0] += 0.75
    assert found == [True, False, False, True, False, False, True, False]


SCHEDULES = st.builds(
    Schedule,
    every=st.none() | st.integers(1, 9),
    every_seconds=st.none() | st.sampled_from([0.25, 1.0, 2.5, 7.0]),
    start=st.integers(0, 12),
    end=st.none() | st.integers(1, 40),
    steps=st.lists(st.integers(0, 50), max_size=3).map(tuple),
)


def by_plain_loop(schedule: Schedule, times: list[float]) -> list[int]:
    """The design's words: listed, or in range and every so many steps, or in range and so many seconds later."""
    taken, last = [], float("-inf")
    for step, now in enumerate(times):
        is_in_range = step >= schedule.start and (schedule.end is None or step < schedule.end)
        is_listed = step in schedule.steps
        is_counted = is_in_range and schedule.every is not None and step % schedule.every == 0
        is_late = is_in_range and schedule.every_seconds is not None and now - last >= schedule.every_seconds
        if is_listed or is_counted or is_late:
            taken.append(step)
            last = now
    return taken


@given(
    schedules=st.lists(SCHEDULES, min_size=1, max_size=3),
    pauses=st.lists(st.sampled_from([0.0, 0.25, 0.5, 3.0]), min_size=1, max_size=60),
)
def test_any_schedules_together_are_due_as_a_plain_loop_says(schedules: list[Schedule], pauses: list[float]) -> None:
    times = [sum(pauses[:at]) for at in range(len(pauses))]
    items = [CaptureItem("weights", schedule=schedule) for schedule in schedules]
    found: dict[int, list[int]] = {id(item): [] for item in items}
    with mock.patch("leadline.training.recorder.schedule.time.monotonic") as monotonic:
        due = CaptureSchedule(items)
        for step, now in enumerate(times):
            monotonic.return_value = now
            for item in due.at(step):
                found[id(item)].append(step)
    for item in items:
        assert found[id(item)] == by_plain_loop(item.schedule, times)


@given(
    schedules=st.lists(SCHEDULES, min_size=1, max_size=3),
    modes=st.lists(st.sampled_from(["train", "eval", "predict"]), min_size=1, max_size=60),
)
def test_each_mode_counts_its_own_steps(schedules: list[Schedule], modes: list[str]) -> None:
    items = [CaptureItem("layers", schedule=Schedule(each.every, None, each.start, each.end)) for each in schedules]
    dues = {mode: CaptureSchedule(items) for mode in set(modes)}
    counts = dict.fromkeys(modes, 0)
    found: dict[tuple[str, int], list[int]] = {}
    for mode in modes:
        for item in dues[mode].at(counts[mode]):
            found.setdefault((mode, id(item)), []).append(counts[mode])
        counts[mode] += 1
    for mode, count in counts.items():
        for item in items:
            assert found.get((mode, id(item)), []) == by_plain_loop(item.schedule, [0.0] * count)


@given(
    st.lists(SCHEDULES.filter(lambda each: each.every_seconds is None), min_size=1, max_size=4),
    st.lists(st.integers(0, 4), max_size=30),
)
def test_wishes_are_due_together_as_each_is_alone(schedules: list[Schedule], strides: list[int]) -> None:
    items = [CaptureItem("weights", schedule=each) for each in schedules]
    together, alone = CaptureSchedule(items), [CaptureSchedule([each]) for each in items]
    step = 0
    for stride in strides:
        step += stride
        found = [id(each) for each in together.at(step)]
        assert found == [id(item) for item, due in zip(items, alone, strict=True) if due.at(step)]
