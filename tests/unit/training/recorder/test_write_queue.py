"""Pending captures are written in order, complete their step only afterwards, and never block."""

from __future__ import annotations

from typing import Any

import pytest

from leadline.instrumentation.guard import Facts
from leadline.records.series import SeriesLayout, StepStamp, TensorInfo
from leadline.training.recorder import step_output
from leadline.training.recorder.step_output import WriteQueue

LOSS = SeriesLayout((TensorInfo("loss", ("losses",)),), ((0, "value"),))


class FakeWriter:
    """A writer that records its calls."""

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


class FakePending:
    """Numbers that arrive when the test says so."""

    def __init__(self, values: bytes = b"") -> None:
        self.has_arrived = False
        self.waits = 0
        self._values = values

    def is_done(self) -> bool:
        return self.has_arrived

    def wait(self) -> None:
        self.waits += 1
        self.has_arrived = True

    def values(self) -> bytes:
        assert self.has_arrived
        return self._values


class Capture:
    def __init__(self, step: int) -> None:
        self.step = step


def stamp(step: int) -> StepStamp:
    return StepStamp(step, "train", step, step)


@pytest.fixture
def writer() -> FakeWriter:
    return FakeWriter()


@pytest.fixture
def queue(writer: FakeWriter) -> WriteQueue:
    return WriteQueue(writer, Facts(print, int))  # type: ignore[arg-type]


def put(queue: WriteQueue, step: int, values: Any, **options: Any) -> None:
    queue.put_row(LOSS, stamp(step), values, lambda layout, numbers: numbers == b"bad", **options)


def test_complete_entries_are_passed_on_at_once(queue: WriteQueue, writer: FakeWriter) -> None:
    put(queue, 0, b"bad")
    queue.put_tensors(Capture(0), None)  # type: ignore[arg-type]
    queue.finish_step(stamp(0))
    assert writer.lines == [("value", 0, b"bad", True), ("tensors", 0), ("finished", 0)]


def test_a_step_is_complete_only_after_its_pending_rows(queue: WriteQueue, writer: FakeWriter) -> None:
    first, copied = FakePending(b"1"), FakePending()
    put(queue, 0, first)
    queue.put_tensors(Capture(0), copied)  # type: ignore[arg-type]
    queue.finish_step(stamp(0))
    put(queue, 1, b"2")
    queue.finish_step(stamp(1))
    assert writer.lines == []
    first.has_arrived = True
    queue.poll(2)
    assert writer.lines == [("value", 0, b"1", False)]
    copied.has_arrived = True
    queue.poll(2)
    assert writer.lines[1:] == [("tensors", 0), ("finished", 0), ("value", 1, b"2", False), ("finished", 1)]
    assert first.waits == copied.waits == 0


def test_entries_completed_out_of_order_are_passed_on_in_order(queue: WriteQueue, writer: FakeWriter) -> None:
    first, second = FakePending(b"1"), FakePending(b"2")
    put(queue, 0, first)
    put(queue, 1, second)
    second.has_arrived = True
    queue.poll(1)
    assert writer.lines == []
    first.has_arrived = True
    queue.poll(1)
    assert [line[1] for line in writer.lines] == [0, 1]


def test_the_number_of_pending_steps_is_bounded(
    queue: WriteQueue, writer: FakeWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_output, "MAX_STEPS_LATE", 2)
    pending = [FakePending(b"%d" % step) for step in range(5)]
    for step, values in enumerate(pending):
        put(queue, step, values)
        queue.finish_step(stamp(step))
    assert [entry.waits for entry in pending] == [1, 1, 0, 0, 0]
    assert writer.lines[-1] == ("finished", 1)


def test_drain_waits_for_everything(queue: WriteQueue, writer: FakeWriter) -> None:
    pending = [FakePending(b"1"), FakePending(b"2")]
    for step, values in enumerate(pending):
        put(queue, step, values)
        queue.finish_step(stamp(step))
    queue.drain()
    assert [entry.waits for entry in pending] == [1, 1]
    assert [line[:2] for line in writer.lines] == [("value", 0), ("finished", 0), ("value", 1), ("finished", 1)]


@pytest.mark.parametrize("is_so", [True, False])
def test_a_skipped_step_has_no_update_row(queue: WriteQueue, writer: FakeWriter, is_so: bool) -> None:
    skipped, ratios = FakePending(b"\0\0\0\0\0\0\xf0?" if is_so else bytes(8)), FakePending(b"1")
    put(queue, 3, ratios, skipped=skipped)
    queue.put_skipped("Adam", stamp(3), skipped)
    ratios.has_arrived = True
    queue.poll(3)
    assert writer.lines == []
    skipped.has_arrived = True
    queue.poll(3)
    names = [line[0] for line in writer.lines]
    assert names == (["step_skipped", "skipped"] if is_so else ["value"])


def test_a_step_known_to_be_skipped_is_reported_at_once(queue: WriteQueue, writer: FakeWriter) -> None:
    put(queue, 3, b"1", skipped=True)
    queue.put_skipped("Adam", stamp(3), True)
    assert [line[0] for line in writer.lines] == ["step_skipped", "skipped"]
