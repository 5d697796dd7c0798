"""In a resumed run, what an earlier incarnation has captured is not captured again at the next step."""

from __future__ import annotations

import pytest

from leadline.records.plan import CaptureItem, Schedule
from leadline.training.recorder.schedule import CaptureSchedule


@pytest.mark.parametrize(
    ("schedule", "first", "expected"),
    [
        (Schedule(every=10), 57, [60, 70, 80]),
        (Schedule(every=10), 60, [60, 70, 80]),
        (Schedule(every=10, start=65), 57, [70, 80]),
        (Schedule(every=None, steps=(3, 58, 79)), 57, [58, 79]),
        (Schedule(every=1), 79, [79, 80]),
    ],
)
def test_captures_are_those_of_a_training_that_was_not_interrupted(
    schedule: Schedule, first: int, expected: list[int]
) -> None:
    item = CaptureItem("gradients", statistics=("l2",), schedule=schedule)
    whole, resumed = CaptureSchedule([item]), CaptureSchedule([item])
    assert resumed.advance_to(0) == whole.advance_to(0)  # before it is known where the process continues
    resumed.skip_to(first)
    captured = [step for step in range(first, 81) if resumed.advance_to(step)]
    assert captured == expected
    assert captured == [step for step in range(1, 81) if whole.advance_to(step) and step >= first]
