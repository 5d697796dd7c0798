"""Clock of a CUDA device, tested with a fake driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from leadline.frameworks.torch.adapter import CLOCKS, CudaClock


@dataclass
class Driver:
    """Time of the fake device, and the calls that it received."""

    milliseconds: float = 0.0
    is_capturing: bool = False
    stream: int = 7
    calls: list[str] = field(default_factory=list)
    streams: list[Any] = field(default_factory=list)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    fake = Driver()

    class Event:
        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing
            self.at = float("nan")

        def record(self, stream: Any) -> None:
            fake.streams.append(stream)
            self.at = fake.milliseconds

        def query(self) -> bool:
            fake.calls.append("query")
            return fake.milliseconds > self.at

        def synchronize(self) -> None:
            fake.calls.append("synchronize")

        def elapsed_time(self, other: Event) -> float:
            return other.at - self.at

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=fake.stream, device=device)
    )
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: fake.stream, raising=False)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: fake.is_capturing)
    return fake


def clock() -> CudaClock:
    cuda_clock = CLOCKS["cuda"](torch.device("cuda", 1))
    assert isinstance(cuda_clock, CudaClock)
    return cuda_clock


def test_marks_use_the_training_stream_and_are_queried_without_waiting(driver: Driver) -> None:
    cuda_clock = clock()
    first = cuda_clock.mark()
    assert not cuda_clock.is_past(first)
    driver.milliseconds = 2.5
    second = cuda_clock.mark()
    assert cuda_clock.is_past(first)
    assert cuda_clock.between_ns(first, second) == 2_500_000
    driver.stream = 8
    cuda_clock.mark()
    assert [(stream.cuda_stream, stream.device) for stream in driver.streams] == [
        *([(7, torch.device("cuda", 1))] * 2),
        (8, torch.device("cuda", 1)),
    ]
    assert set(driver.calls) == {"query"}
    cuda_clock.wait(second)
    assert driver.calls[-1] == "synchronize"


def test_nothing_is_queried_during_graph_capture(driver: Driver) -> None:
    cuda_clock = clock()
    before = cuda_clock.mark()
    driver.milliseconds, driver.is_capturing = 1.0, True
    assert cuda_clock.mark() is None
    assert not cuda_clock.is_past(before)
    assert (len(driver.streams), driver.calls) == (1, [])
