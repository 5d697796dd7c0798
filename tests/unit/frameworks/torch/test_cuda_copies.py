"""Numbers of several rows are copied from a CUDA device together, but do not wait for long."""

from __future__ import annotations

import pytest
import torch

from leadline.frameworks.torch.capture import cuda_copier
from leadline.frameworks.torch.capture.cuda_copier import _Shipment


class Event:
    """An event that the device passes on request."""

    is_past = False
    waits = 0

    def query(self) -> bool:
        return self.is_past

    def synchronize(self) -> None:
        self.waits += 1


class Link:
    """Sends shipments, and counts them."""

    def __init__(self) -> None:
        self.event, self.sent = Event(), 0

    def send(self, shipment: _Shipment) -> None:
        self.sent += 1
        shipment.sent(torch.cat(shipment.parts), self.event)


@pytest.fixture
def link() -> Link:
    return Link()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    now = [1]
    monkeypatch.setattr(cuda_copier.time, "monotonic_ns", lambda: now[0])
    return now


def test_each_row_reads_its_own_numbers(link: Link, clock: list[int]) -> None:
    shipment = _Shipment("stream", link.send)
    copies = [shipment.add(torch.arange(i, dtype=torch.float64)) for i in range(1, 4)]
    shipment.send_if_due()
    assert link.sent == 0
    assert not copies[0].is_done()
    copies[1].wait()
    assert (link.sent, link.event.waits) == (1, 1)
    assert [copy.numbers().tolist() for copy in copies] == [[0], [0, 1], [0, 1, 2]]
    assert copies[0].is_done()


def test_many_rows_are_sent(link: Link, clock: list[int]) -> None:
    shipment = _Shipment("stream", link.send)
    for _ in range(16):
        assert link.sent == 0
        copy = shipment.add(torch.ones(1))
        shipment.send_if_due()
    assert link.sent == 1
    assert not copy.is_done()
    link.event.is_past = True
    assert copy.is_done()


def test_a_row_does_not_wait_for_long_for_others(link: Link, clock: list[int]) -> None:
    copy = _Shipment("stream", link.send).add(torch.ones(1))
    clock[0] += 49_000_000
    assert not copy.is_done()
    assert link.sent == 0
    clock[0] += 2_000_000
    assert not copy.is_done()
    assert link.sent == 1
