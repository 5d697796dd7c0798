"""The clock of a CUDA device, with a fake in the driver's place: what is asked of it, and what never is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from leadline.frameworks.torch.timing.cuda_clock import CLOCKS, CudaClock


@dataclass
class Driver:
    """What the fake was asked, and how far the device is."""

    milliseconds: float = 0.0
    is_capturing: bool = False
    asked: list[str] = field(default_factory=list)
    streams: list[Any] = field(default_factory=list)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    found = Driver()

    class Event:
        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing
            self.at = float("nan")

        def record(self, stream: Any) -> None:
            found.streams.append(stream)
            self.at = found.milliseconds

        def query(self) -> bool:
            found.asked.append("query")
            return found.milliseconds > self.at

        def synchronize(self) -> None:
            found.asked.append("synchronize")

        def elapsed_time(self, other: Event) -> float:
            return other.at - self.at

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: ("stream of", device))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: found.is_capturing)
    return found


def clock() -> CudaClock:
    made = CLOCKS["cuda"](torch.device("cuda", 1))
    assert isinstance(made, CudaClock)
    return made


def test_marks_stand_in_the_trainings_own_stream_and_are_asked_without_waiting(driver: Driver) -> None:
    own = clock()
    first = own.mark()
    assert not own.is_past(first)
    driver.milliseconds = 2.5
    second = own.mark()
    assert own.is_past(first)
    assert own.between_ns(first, second) == 2_500_000
    assert driver.streams == [("stream of", torch.device("cuda", 1))] * 2
    assert set(driver.asked) == {"query"}
    own.wait(second)
    assert driver.asked[-1] == "synchronize"


def test_while_a_graph_is_recorded_the_driver_is_asked_nothing(driver: Driver) -> None:
    own = clock()
    before = own.mark()
    driver.milliseconds, driver.is_capturing = 1.0, True
    assert own.mark() is None
    assert not own.is_past(before)
    assert (len(driver.streams), driver.asked) == (1, [])
