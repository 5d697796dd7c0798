"""What waits for an accelerator is written in order, its step is not called complete before, and nothing waits."""

from __future__ import annotations

from typing import Any

import pytest

from leadline.records.series import SeriesLayout, StepStamp, TensorInfo
from leadline.training.recorder import write_queue as outbox_module
from leadline.training.recorder.write_queue import WriteQueue

LOSS = SeriesLayout((TensorInfo("loss", ("losses",)),), ((0, "value"),))


class Told:
    """A writer that notes what it is given."""

    def __init__(self) -> None:
        self.lines: list[Any] = []

    def put_row(self, layout: SeriesLayout, stamp: StepStamp, values: bytes, *, is_urgent: bool = False) -> None:
        self.lines.append((layout.columns[0][1], stamp.step, values, is_urgent))

    def put_event(self, event: Any) -> None:
        self.lines.append((event.name, event.step))

    def put_tensors(self, capture: Any) -> None:
        self.lines.append(("tensors", capture.step))

    def finish_step(self, stamp: StepStamp) -> None:
        self.lines.append(("finished", stamp.step))


class Late:
    """Numbers that come when told to."""

    def __init__(self, values: bytes = b"") -> None:
        self.has_come = False
        self.waits = 0
        self._values = values

    def is_done(self) -> bool:
        return self.has_come

    def wait(self) -> None:
        self.waits += 1
        self.has_come = True

    def values(self) -> bytes:
        assert self.has_come
        return self._values


class Capture:
    def __init__(self, step: int) -> None:
        self.step = step


def stamp(step: int) -> StepStamp:
    return StepStamp(step, "train", step, step)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def outbox(told: Told) -> WriteQueue:
    return WriteQueue(told)  # type: ignore[arg-type]


def put(outbox: WriteQueue, step: int, values: Any, **how: Any) -> None:
    outbox.put_row(LOSS, stamp(step), values, lambda layout, come: come == b"bad", **how)


def test_what_is_at_hand_is_passed_on_at_once(outbox: WriteQueue, told: Told) -> None:
    put(outbox, 0, b"bad")
    outbox.put_tensors(Capture(0), None)  # type: ignore[arg-type]
    outbox.finish_step(stamp(0))
    assert told.lines == [("value", 0, b"bad", True), ("tensors", 0), ("finished", 0)]


def test_a_step_is_complete_only_when_its_late_rows_are_in(outbox: WriteQueue, told: Told) -> None:
    first, copied = Late(b"1"), Late()
    put(outbox, 0, first)
    outbox.put_tensors(Capture(0), copied)  # type: ignore[arg-type]
    outbox.finish_step(stamp(0))
    put(outbox, 1, b"2")
    outbox.finish_step(stamp(1))
    assert told.lines == []
    first.has_come = True
    outbox.poll(2)
    assert told.lines == [("value", 0, b"1", False)]
    copied.has_come = True
    outbox.poll(2)
    assert told.lines[1:] == [("tensors", 0), ("finished", 0), ("value", 1, b"2", False), ("finished", 1)]
    assert first.waits == copied.waits == 0


def test_what_comes_out_of_order_is_passed_on_in_order(outbox: WriteQueue, told: Told) -> None:
    first, second = Late(b"1"), Late(b"2")
    put(outbox, 0, first)
    put(outbox, 1, second)
    second.has_come = True
    outbox.poll(1)
    assert told.lines == []
    first.has_come = True
    outbox.poll(1)
    assert [line[1] for line in told.lines] == [0, 1]


def test_only_a_bounded_number_of_steps_is_under_way(
    outbox: WriteQueue, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "MOST_STEPS_LATE", 2)
    late = [Late(b"%d" % step) for step in range(5)]
    for step, values in enumerate(late):
        put(outbox, step, values)
        outbox.finish_step(stamp(step))
    assert [each.waits for each in late] == [1, 1, 0, 0, 0]
    assert told.lines[-1] == ("finished", 1)


def test_the_end_waits_for_all(outbox: WriteQueue, told: Told) -> None:
    late = [Late(b"1"), Late(b"2")]
    for step, values in enumerate(late):
        put(outbox, step, values)
        outbox.finish_step(stamp(step))
    outbox.drain()
    assert [each.waits for each in late] == [1, 1]
    assert [line[:2] for line in told.lines] == [("value", 0), ("finished", 0), ("value", 1), ("finished", 1)]


@pytest.mark.parametrize("is_so", [True, False])
def test_a_step_that_turns_out_to_be_skipped_has_no_update(outbox: WriteQueue, told: Told, is_so: bool) -> None:
    skipped, ratios = Late(b"\0\0\0\0\0\0\xf0?" if is_so else bytes(8)), Late(b"1")
    put(outbox, 3, ratios, skipped=skipped)
    outbox.put_skipped("Adam", stamp(3), skipped)
    ratios.has_come = True
    outbox.poll(3)
    assert told.lines == []
    skipped.has_come = True
    outbox.poll(3)
    names = [line[0] for line in told.lines]
    assert names == (["step_skipped", "skipped"] if is_so else ["value"])


def test_what_is_known_to_be_skipped_is_told_at_once(outbox: WriteQueue, told: Told) -> None:
    put(outbox, 3, b"1", skipped=True)
    outbox.put_skipped("Adam", stamp(3), True)
    assert [line[0] for line in told.lines] == ["step_skipped", "skipped"]
