"""When wishes are due, for subjects that are asked at every step or now and then."""

from __future__ import annotations

from leadline.capture.dueness import Due
from leadline.records.plan import CaptureItem, Schedule


def due_steps(item: CaptureItem, asked: range) -> list[int]:
    due = Due([item])
    return [step for step in asked if due.at(step)]


def test_every_and_listed_steps() -> None:
    item = CaptureItem("weights", schedule=Schedule(every=4, start=2, end=13, steps=(1, 20)))
    assert due_steps(item, range(30)) == [1, 4, 8, 12, 20]


def test_an_optimizer_that_steps_every_fifth_step_is_not_missed() -> None:
    item = CaptureItem("weights", schedule=Schedule(every=50))
    assert due_steps(item, range(1, 200, 5)) == [1, 51, 101, 151]


def test_two_wishes() -> None:
    often, seldom = (CaptureItem("weights", schedule=Schedule(every=every)) for every in (2, 6))
    due = Due([often, seldom])
    assert [len(due.at(step)) for step in range(8)] == [2, 0, 1, 0, 1, 0, 2, 0]


def test_nothing_wished_is_never_due() -> None:
    assert due_steps(CaptureItem("weights"), range(5)) == []


def test_by_time(monkeypatch) -> None:
    now = [100.0]
    monkeypatch.setattr("leadline.capture.dueness.time.monotonic", lambda: now[0])
    due = Due([CaptureItem("weights", schedule=Schedule(every_seconds=2.0))])
    found = []
    for step in range(8):
        found.append(bool(due.at(step)))
        now[0] += 0.75
    assert found == [True, False, False, True, False, False, True, False]
