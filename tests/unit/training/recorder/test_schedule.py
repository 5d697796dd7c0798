"""Capture schedules that advance at every step or at some."""

from __future__ import annotations

from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from leadline.records.plan import CaptureItem, Schedule
from leadline.training.recorder.schedule import CaptureSchedule


def captured_steps(item: CaptureItem, step_range: range) -> list[int]:
    capture_schedule = CaptureSchedule([item])
    return [step for step in step_range if capture_schedule.advance_to(step)]


def test_every_and_listed_steps() -> None:
    item = CaptureItem("weights", schedule=Schedule(every=4, start=2, end=13, steps=(1, 20)))
    assert captured_steps(item, range(30)) == [1, 4, 8, 12, 20]


def test_an_optimizer_that_steps_every_fifth_step_is_not_missed() -> None:
    item = CaptureItem("weights", schedule=Schedule(every=50))
    assert captured_steps(item, range(1, 200, 5)) == [1, 51, 101, 151]


def test_two_items() -> None:
    often, seldom = (CaptureItem("weights", schedule=Schedule(every=every)) for every in (2, 6))
    capture_schedule = CaptureSchedule([often, seldom])
    assert [len(capture_schedule.advance_to(step)) for step in range(8)] == [2, 0, 1, 0, 1, 0, 2, 0]


def test_without_items_nothing_is_scheduled() -> None:
    assert captured_steps(CaptureItem("weights"), range(5)) == []


def test_by_time(monkeypatch) -> None:
    now = [100.0]
    monkeypatch.setattr("leadline.training.recorder.schedule.time.monotonic", lambda: now[0])
    capture_schedule = CaptureSchedule([CaptureItem("weights", schedule=Schedule(every_seconds=2.0))])
    captured = []
    for step in range(8):
        captured.append(bool(capture_schedule.advance_to(step)))
        now[0] += 0.75
    assert captured == [True, False, False, True, False, False, True, False]


SCHEDULES = st.builds(
    Schedule,
    every=st.none() | st.integers(1, 9),
    every_seconds=st.none() | st.sampled_from([0.25, 1.0, 2.5, 7.0]),
    start=st.integers(0, 12),
    end=st.none() | st.integers(1, 40),
    steps=st.lists(st.integers(0, 50), max_size=3).map(tuple),
)


def by_plain_loop(schedule: Schedule, times: list[float]) -> list[int]:
    """The definition: listed, or in range and a multiple of the interval, or in range and the seconds have passed."""
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
def test_any_schedules_together_equal_a_plain_loop(schedules: list[Schedule], pauses: list[float]) -> None:
    times = [sum(pauses[:at]) for at in range(len(pauses))]
    items = [CaptureItem("weights", schedule=schedule) for schedule in schedules]
    captured: dict[int, list[int]] = {id(item): [] for item in items}
    with mock.patch("leadline.training.recorder.schedule.time.monotonic") as monotonic:
        capture_schedule = CaptureSchedule(items)
        for step, now in enumerate(times):
            monotonic.return_value = now
            for item in capture_schedule.advance_to(step):
                captured[id(item)].append(step)
    for item in items:
        assert captured[id(item)] == by_plain_loop(item.schedule, times)


@given(
    schedules=st.lists(SCHEDULES, min_size=1, max_size=3),
    modes=st.lists(st.sampled_from(["train", "eval", "predict"]), min_size=1, max_size=60),
)
def test_each_mode_counts_its_own_steps(schedules: list[Schedule], modes: list[str]) -> None:
    items = [
        CaptureItem("layers", schedule=Schedule(schedule.every, None, schedule.start, schedule.end))
        for schedule in schedules
    ]
    schedules_by_mode = {mode: CaptureSchedule(items) for mode in set(modes)}
    counts = dict.fromkeys(modes, 0)
    captured: dict[tuple[str, int], list[int]] = {}
    for mode in modes:
        for item in schedules_by_mode[mode].advance_to(counts[mode]):
            captured.setdefault((mode, id(item)), []).append(counts[mode])
        counts[mode] += 1
    for mode, count in counts.items():
        for item in items:
            assert captured.get((mode, id(item)), []) == by_plain_loop(item.schedule, [0.0] * count)


@given(
    st.lists(SCHEDULES.filter(lambda schedule: schedule.every_seconds is None), min_size=1, max_size=4),
    st.lists(st.integers(0, 4), max_size=30),
)
def test_items_are_scheduled_together_as_separately(schedules: list[Schedule], strides: list[int]) -> None:
    items = [CaptureItem("weights", schedule=schedule) for schedule in schedules]
    together, alone = CaptureSchedule(items), [CaptureSchedule([item]) for item in items]
    step = 0
    for stride in strides:
        step += stride
        captured = [id(item) for item in together.advance_to(step)]
        assert captured == [
            id(item) for item, capture_schedule in zip(items, alone, strict=True) if capture_schedule.advance_to(step)
        ]
