"""A window on data loaders: every wait and every fetched batch, from workers that were there before it opened."""

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

from leadline.frameworks.torch.timing.loader_workers import Fetching, LoadingRecording
from leadline.store import layout
from leadline.training.guard import Guard

SLOW_SECONDS = 0.02


class Slow(Dataset[tuple[torch.Tensor, int]]):
    """Each sample takes its time."""

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
    fetching = Fetching(str(folder), Guard(fail))
    fetching.install()
    yield folder
    fetching.uninstall()


def events(folder: Path) -> list[dict[str, Any]]:
    with pa.ipc.open_stream(folder / layout.LOADING) as reader:
        return list(reader.read_all().to_pylist())


def look(profiles: Path, tmp_path: Path, workers: int) -> tuple[list[dict[str, Any]], list[torch.Tensor]]:
    """What a window tells that opens behind the second batch and closes behind the sixth; and all batches."""
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
    found, batches = look(profiles, tmp_path, 0)
    waits = [each for each in found if each["event"] == "wait"]
    fetches = [each for each in found if each["event"] == "fetch"]
    assert [each["step"] for each in waits] == [2, 3, 4, 5]
    assert len(fetches) == 4
    assert {each["worker_id"] for each in found} == {-1}
    assert all(each["duration_ns"] >= 4 * SLOW_SECONDS * 1e9 for each in (*waits, *fetches))
    assert {each["bytes"] for each in fetches} == {4 * 8 * 4 + 4 * 8}
    assert {each["batch_size"] for each in fetches} == {4}
    assert len(batches) == 10


def test_workers_that_were_there_before_tell_of_their_batches(profiles: Path, tmp_path: Path) -> None:
    found, batches = look(profiles, tmp_path, 2)
    fetches = [each for each in found if each["event"] == "fetch"]
    assert {each["worker_id"] for each in fetches} <= {0, 1}
    assert fetches
    assert os.getpid() not in {each["pid"] for each in fetches}
    assert {each["num_workers"] for each in fetches} == {2}
    waits = [each for each in found if each["event"] == "wait"]
    assert [each["step"] for each in waits] == [2, 3, 4, 5]
    assert all(0 <= each["ready"] <= 4 for each in waits)
    assert torch.equal(torch.cat(batches)[:, 0], torch.arange(40.0)), "the batches are what they would be without"


def test_nothing_is_left_and_nothing_told_outside_of_windows(profiles: Path, tmp_path: Path) -> None:
    look(profiles, tmp_path, 0)
    assert list(profiles.iterdir()) == []
    for _ in DataLoader(Slow(), batch_size=20):
        pass
    assert list(profiles.iterdir()) == []
    from torch.utils.data import dataloader

    assert "__wrapped__" not in vars(dataloader._SingleProcessDataLoaderIter._next_data)


def test_an_iterator_that_is_made_within_the_window_is_told(profiles: Path, tmp_path: Path) -> None:
    recording = LoadingRecording(str(profiles), Guard(fail))
    profiles.mkdir()
    recording.begin(0)
    next(iter(DataLoader(Slow(), batch_size=1)))
    recording.end(1, "train")(str(tmp_path))
    assert [each["event"] for each in events(tmp_path)] == ["make_iterator", "wait", "fetch"]


def test_an_error_in_the_dataset_is_the_scripts_own(profiles: Path, tmp_path: Path) -> None:
    recording = LoadingRecording(str(profiles), Guard(fail))
    profiles.mkdir()
    recording.begin(0)
    with pytest.raises(IndexError):
        next(iter(DataLoader([], sampler=[3], batch_size=1)))  # type: ignore[arg-type]
    recording.end(1, "train")(str(tmp_path))
    assert [each["event"] for each in events(tmp_path)] == ["make_iterator"]
