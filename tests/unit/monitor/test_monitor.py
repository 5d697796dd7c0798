"""The monitor: storage of samples, and continuing after errors."""

from __future__ import annotations

import errno
import json
import math
import os
import threading
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.ipc
import pytest

from leadline.monitor.monitor import Monitor, set_interval
from leadline.records.documents import DroppedSamples
from leadline.records.metric import NOT_SAMPLED, Channel
from leadline.records.request import SetInterval
from leadline.store import layout
from leadline.store.segments import Segment


class Scripted:
    """A sampler with given values."""

    def __init__(self, kind: str, *values: float | None) -> None:
        self.kind = kind
        self.absent: dict[str, str] = {}
        self.channels = tuple(Channel(kind, "d", f"m{index}") for index in range(len(values)))
        self.values: Sequence[float | None] | Exception = values

    def sample(self, now: float) -> Sequence[float | None]:
        if isinstance(self.values, Exception):
            raise self.values
        return self.values


class Clock:
    """A clock set by the test."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def wall(self) -> int:
        return int(self.now * 1e9)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / layout.MANIFEST).write_text("{}")
    (tmp_path / layout.SYSTEM).mkdir()
    return tmp_path


@pytest.fixture
def clock() -> Clock:
    return Clock()


def monitor(run: Path, clock: Clock, *samplers: Scripted) -> Monitor:
    return Monitor(str(run), "n", lambda: samplers, clock=clock, wall_clock=clock.wall)


def rows(run: Path) -> list[tuple[int, int, str, float]]:
    """Return segment, sequence, channel and value of everything that is stored."""
    found = []
    for number, path in enumerate(sorted((run / "system" / "n").iterdir()), 1):
        with pyarrow.ipc.open_stream(zlib.decompressobj(31).decompress(Path(path).read_bytes())) as stream:
            names = [
                channel[0] + "." + channel[2] for channel in json.loads(stream.schema.metadata[b"leadline.channels"])
            ]
            table = stream.read_all().to_pydict()
        found += [
            (number, sequence, names[channel], value)
            for sequence, channel, value in zip(table["sequence"], table["channel"], table["value"], strict=True)
        ]
    return found


def test_samples_are_stored_in_sequence(run: Path, clock: Clock) -> None:
    running = monitor(run, clock, Scripted("a", 1.0, None), Scripted("b", 2.0))
    running.sample()
    clock.now = 0.5
    running.sample()
    assert rows(run) == [(1, 0, "a.m0", 1.0), (1, 0, "b.m0", 2.0), (1, 1, "a.m0", 1.0), (1, 1, "b.m0", 2.0)]


def test_non_finite_values_are_absent(run: Path, clock: Clock) -> None:
    monitor(run, clock, Scripted("a", float("nan"), float("inf"), 3.0)).sample()
    assert rows(run) == [(1, 0, "a.m2", 3.0)]


def test_a_sampler_that_raises_costs_its_own_values(run: Path, clock: Clock) -> None:
    bad = Scripted("bad", 1.0)
    bad.values = RuntimeError("broken")
    running = monitor(run, clock, bad, Scripted("good", 2.0))
    running.sample()
    assert rows(run) == [(1, 0, "good.m0", 2.0)]
    assert running.absent() == {"bad": "RuntimeError: broken"}
    bad.values = (7.0,)
    running.sample()
    assert rows(run)[1] == (1, 1, "bad.m0", 7.0)


def test_a_change_of_channels_opens_the_next_segment(run: Path, clock: Clock) -> None:
    sampler = Scripted("a", 1.0)
    running = monitor(run, clock, sampler)
    running.sample()
    sampler.channels = (*sampler.channels, Channel("a", "d", "new"))
    sampler.values = (1.0, 2.0)
    running.sample()
    assert rows(run) == [(1, 0, "a.m0", 1.0), (2, 1, "a.m0", 1.0), (2, 1, "a.new", 2.0)]


def test_a_full_disk_is_reported_once_counted_and_retried(
    run: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = monitor(run, clock, Scripted("a", 1.0))
    running.sample()
    real_append, tries = Segment.append, []

    def refuse(self: Segment, *arguments: Any) -> int:
        tries.append(clock.now)
        self.close()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Segment, "append", refuse)
    for tick in range(1, 14):
        clock.now = float(tick)
        running.sample()
    assert tries == [1.0, 6.0, 11.0]
    assert running.dropped() == DroppedSamples(13, 10**9, "No space left on device")
    assert len(running.take_warnings()) == 1
    assert running.take_warnings() == []
    monkeypatch.setattr(Segment, "append", real_append)
    clock.now = 16.0
    running.sample()
    assert rows_of_whole(run)[-1][1] == 1  # the sequence has no gap


def rows_of_whole(run: Path) -> list[tuple[int, int, str, float]]:
    """Return the same for segments that are not empty."""
    for path in (run / "system" / "n").iterdir():
        if path.stat().st_size == 0:
            path.unlink()
    return rows(run)


def test_a_full_disk_is_not_filled_with_empty_segments(
    run: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = monitor(run, clock, Scripted("a", 1.0))

    def refuse(self: Segment, *arguments: Any) -> int:
        self.close()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Segment, "append", refuse)
    running.sample()
    full = os.statvfs_result((4096, 4096, 100, 1, 1, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: full)
    for tick in range(1, 30):
        clock.now = float(tick)
        running.sample()
    assert len(list((run / "system" / "n").iterdir())) == 1


def test_a_deleted_run_is_not_created_again(run: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    running = monitor(run, clock, Scripted("a", 1.0))
    monkeypatch.setattr("leadline.store.segments.SegmentFolder.open", lambda *_: (_ for _ in ()).throw(OSError(2, "x")))
    running.sample()
    monkeypatch.undo()
    (run / layout.MANIFEST).unlink()
    clock.now = 6.0
    running.sample()
    assert list((run / "system").iterdir()) == []


def test_the_thread_takes_a_last_sample(run: Path) -> None:
    running = Monitor(str(run), "n", lambda: [Scripted("a", 1.0)], interval_seconds=60)
    running.start()
    running.stop()
    assert len(rows(run)) >= 1


def test_nothing_is_sampled_while_it_is_off_and_the_pause_is_in_no_rate(run: Path) -> None:
    read = threading.Semaphore(0)

    class Reading(Scripted):
        def sample(self, now: float) -> Sequence[float | None]:
            read.release()
            return super().sample(now)

    running = Monitor(str(run), "n", lambda: [Reading("a", 1.0)], interval_seconds=math.inf)
    running.start()
    assert set_interval(running, SetInterval("1", interval_ms=60000)).is_accepted
    read.acquire()  # where rates begin
    assert not list((run / layout.SYSTEM).iterdir())
    set_interval(running, SetInterval("2", interval_ms=100))
    read.acquire()
    read.acquire()
    set_interval(running, SetInterval("3", interval_ms=NOT_SAMPLED))
    running.stop()
    stored = len(rows(run))
    assert stored >= 2
    assert read._value == stored - 2  # no last sample


def test_an_error_elsewhere_in_the_loop_is_reported_too(run: Path) -> None:
    running = Monitor(str(run), "n", lambda: 1 / 0, interval_seconds=60)  # type: ignore[arg-type, return-value]
    running.start()
    running.stop()
    assert running.absent() == {"monitor": "ZeroDivisionError: division by zero"}
