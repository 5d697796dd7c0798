"""Schedules, and what an item selects."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.records.plan import CaptureItem, CapturePlan, Schedule


def test_every_start_end_and_listed_steps() -> None:
    schedule = Schedule(every=10, start=5, end=31, steps=(3, 44))
    assert [step for step in range(60) if schedule.should_capture(step)] == [3, 10, 20, 30, 44]


@given(
    st.builds(
        Schedule,
        every=st.none() | st.integers(1, 9),
        start=st.integers(0, 12),
        end=st.none() | st.integers(1, 40),
        steps=st.lists(st.integers(0, 50), max_size=3).map(tuple),
    ),
    st.integers(-1, 50),
    st.integers(0, 20),
)
def test_should_capture_since_covers_every_step_between(schedule: Schedule, last: int, steps: int) -> None:
    def is_scheduled(step: int) -> bool:
        in_range = schedule.start <= step < (schedule.end if schedule.end is not None else 10**9)
        return step in schedule.steps or (schedule.every is not None and in_range and step % schedule.every == 0)

    expected = any(is_scheduled(step) for step in range(last + 1, last + steps + 1))
    assert schedule.should_capture_since(last, last + steps) == expected


def test_seconds() -> None:
    schedule = Schedule(every_seconds=2.0, start=3)
    assert not schedule.interval_elapsed(5.0, 2)
    assert schedule.interval_elapsed(2.0, 3)
    assert not schedule.interval_elapsed(1.9, 3)


@pytest.mark.parametrize(
    ("item", "is_selected"),
    [
        (CaptureItem("weights"), True),
        (CaptureItem("gradients"), False),
        (CaptureItem("all"), True),
        (CaptureItem("weights", regex="^fc"), True),
        (CaptureItem("weights", regex="conv"), False),
        (CaptureItem(regex="weight$"), True),
    ],
)
def test_selection_is_by_collection_and_name(item: CaptureItem, is_selected: bool) -> None:
    assert item.selects("fc.weight", frozenset({"weights"})) is is_selected


def test_a_plan_survives_json() -> None:
    plan = CapturePlan(
        (CaptureItem("losses", None, ("value",), schedule=Schedule(every=1, steps=(1, 2))),), disk_bytes=9
    )
    assert CapturePlan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
