"""Numbers of several rows are copied from a CUDA device together, but do not wait for long."""

from __future__ import annotations

import pytest
import torch

from leadline.frameworks.torch.capture import cuda_copier
from leadline.frameworks.torch.capture.cuda_copier import _GroupedCopy


class Event:
    """An event that the device passes on request."""

    is_past = False
    waits = 0

    def query(self) -> bool:
        return self.is_past

    def synchronize(self) -> None:
        self.waits += 1


class Starter:
    """Starts copies, and counts them."""

    def __init__(self) -> None:
        self.event, self.started, self.is_recording = Event(), 0, False

    def group(self) -> _GroupedCopy:
        return _GroupedCopy("stream", self.start, lambda: self.is_recording)

    def start(self, group: _GroupedCopy) -> None:
        self.started += 1
        group.note_started(torch.cat(group.parts), self.event)


@pytest.fixture
def starter() -> Starter:
    return Starter()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    now = [1]
    monkeypatch.setattr(cuda_copier.time, "monotonic_ns", lambda: now[0])
    return now


def test_each_row_reads_its_own_numbers(starter: Starter, clock: list[int]) -> None:
    group = starter.group()
    copies = [group.add(torch.arange(i, dtype=torch.float64)) for i in range(1, 4)]
    group.maybe_start()
    assert starter.started == 0
    assert not copies[0].is_done()
    copies[1].wait()
    assert (starter.started, starter.event.waits) == (1, 1)
    assert [copy.numbers().tolist() for copy in copies] == [[0], [0, 1], [0, 1, 2]]
    assert copies[0].is_done()


def test_many_rows_are_copied(starter: Starter, clock: list[int]) -> None:
    group = starter.group()
    for _ in range(16):
        assert starter.started == 0
        copy = group.add(torch.ones(1))
        group.maybe_start()
    assert starter.started == 1
    assert not copy.is_done()
    starter.event.is_past = True
    assert copy.is_done()


def test_a_row_does_not_wait_for_long_for_others(starter: Starter, clock: list[int]) -> None:
    copy = starter.group().add(torch.ones(1))
    clock[0] += 49_000_000
    assert not copy.is_done()
    assert starter.started == 0
    clock[0] += 2_000_000
    assert not copy.is_done()
    assert starter.started == 1


def test_nothing_is_started_or_queried_while_a_graph_is_captured(starter: Starter, clock: list[int]) -> None:
    copy = starter.group().add(torch.ones(1))
    clock[0] += 51_000_000
    starter.is_recording = starter.event.is_past = True
    assert not copy.is_done()
    assert starter.started == 0
    starter.is_recording = False
    assert copy.is_done()
    assert starter.started == 1
