"""Profile windows of data loaders: waits and fetched batches, including workers started before the window."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from leadline.frameworks.torch.timing.loader_workers import FetchHooks, LoadingRecording
from leadline.instrumentation.guard import Guard
from leadline.store import layout

SLOW_SECONDS = 0.02


class Slow(Dataset[tuple[torch.Tensor, int]]):
    """A dataset with slow samples."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(SLOW_SECONDS)
        return torch.full((8,), float(index)), index


def fail(failure: str) -> None:
    raise AssertionError(failure)


@pytest.fixture
def profiles(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "profiles"
    hooks = FetchHooks(str(folder), Guard(fail))
    hooks.install()
    yield folder
    hooks.uninstall()


def events(folder: Path) -> list[dict[str, Any]]:
    with pa.ipc.open_stream(folder / layout.LOADING) as reader:
        return list(reader.read_all().to_pylist())


def record_window(profiles: Path, tmp_path: Path, workers: int) -> tuple[list[dict[str, Any]], list[torch.Tensor]]:
    """Return the events of a window from the third to the sixth batch, and all batches."""
    recording = LoadingRecording(str(profiles), Guard(fail))
    batches: list[torch.Tensor] = []
    for step, (batch, _) in enumerate(DataLoader(Slow(), batch_size=4, num_workers=workers)):
        batches.append(batch)
        if step == 1:
            recording.begin(2)
        elif 1 < step < 5:
            recording.enter(step + 1, "train")
        elif step == 5:
            finish = recording.end(6, "train")
    assert list(finish(str(tmp_path))) == [layout.LOADING]
    return events(tmp_path), batches


def test_a_loader_without_workers(profiles: Path, tmp_path: Path) -> None:
    recorded, batches = record_window(profiles, tmp_path, 0)
    waits = [event for event in recorded if event["event"] == "wait"]
    fetches = [event for event in recorded if event["event"] == "fetch"]
    assert [event["step"] for event in waits] == [2, 3, 4, 5]
    assert len(fetches) == 4
    assert {event["worker_id"] for event in recorded} == {-1}
    assert all(event["duration_ns"] >= 4 * SLOW_SECONDS * 1e9 for event in (*waits, *fetches))
    assert {event["bytes"] for event in fetches} == {4 * 8 * 4 + 4 * 8}
    assert {event["batch_size"] for event in fetches} == {4}
    assert len(batches) == 10


def test_workers_started_before_the_window_record_their_batches(profiles: Path, tmp_path: Path) -> None:
    recorded, batches = record_window(profiles, tmp_path, 2)
    fetches = [event for event in recorded if event["event"] == "fetch"]
    assert {event["worker_id"] for event in fetches} <= {0, 1}
    assert fetches
    assert os.getpid() not in {event["pid"] for event in fetches}
    assert {event["num_workers"] for event in fetches} == {2}
    waits = [event for event in recorded if event["event"] == "wait"]
    assert [event["step"] for event in waits] == [2, 3, 4, 5]
    assert all(0 <= event["ready"] <= 4 for event in waits)
    assert torch.equal(torch.cat(batches)[:, 0], torch.arange(40.0)), "batches are unchanged"


def test_nothing_is_recorded_outside_windows(profiles: Path, tmp_path: Path) -> None:
    record_window(profiles, tmp_path, 0)
    assert list(profiles.iterdir()) == []
    for _ in DataLoader(Slow(), batch_size=20):
        pass
    assert list(profiles.iterdir()) == []
    from torch.utils.data import dataloader

    assert "__wrapped__" not in vars(dataloader._SingleProcessDataLoaderIter._next_data)


def test_an_iterator_created_in_the_window_is_recorded(profiles: Path, tmp_path: Path) -> None:
    recording = LoadingRecording(str(profiles), Guard(fail))
    profiles.mkdir()
    recording.begin(0)
    next(iter(DataLoader(Slow(), batch_size=1)))
    recording.end(1, "train")(str(tmp_path))
    assert [event["event"] for event in events(tmp_path)] == ["make_iterator", "wait", "fetch"]


def test_an_exception_of_the_dataset_is_raised_unchanged(profiles: Path, tmp_path: Path) -> None:
    recording = LoadingRecording(str(profiles), Guard(fail))
    profiles.mkdir()
    recording.begin(0)
    with pytest.raises(IndexError):
        next(iter(DataLoader([], sampler=[3], batch_size=1)))  # type: ignore[arg-type]
    recording.end(1, "train")(str(tmp_path))
    assert [event["event"] for event in events(tmp_path)] == ["make_iterator"]
