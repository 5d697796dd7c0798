"""Detection of new data in a growing run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from generated_runs import float_tensors

from leadline.reader.liveness import RunWatch
from leadline.reader.tensors import TensorIndex
from leadline.store import layout
from leadline.testing.runs import Capture, RunWriter

WORKER = "rank0-1"


@pytest.fixture
def writer(tmp_path: Path) -> RunWriter:
    writer = RunWriter(tmp_path / "run")
    writer.write(Capture(0, {"loss": {"value": 1.0}}))
    writer.write(float_tensors(0, {"a.weight": [1.0]}))
    return writer


def settle(writer: RunWriter) -> None:
    """Set old modification times, so that folders count as settled."""
    for part in (layout.SERIES, layout.TENSORS):
        os.utime(os.path.join(writer.path, part, WORKER), ns=(10**18, 10**18))


def test_new_rows_and_tensors_are_noticed_once(writer: RunWriter) -> None:
    watch = RunWatch(writer.path)
    assert watch.has_changed()
    assert not watch.has_changed()
    writer.write(Capture(1, {"loss": {"value": 1.0}}))
    assert watch.has_changed()
    assert not watch.has_changed()
    writer.write(float_tensors(1, {"a.weight": [1.0]}))
    assert watch.has_changed()
    assert not watch.has_changed()


def test_a_replaced_tensor_is_noticed(writer: RunWriter) -> None:
    watch = RunWatch(writer.path)
    watch.has_changed()
    folder = Path(writer.path, layout.TENSORS, WORKER)
    (only,) = folder.iterdir()
    only.rename(only.with_name(f"9{only.name[1:]}"))
    assert watch.has_changed()


def test_a_partial_file_is_not_noticed(writer: RunWriter) -> None:
    watch = RunWatch(writer.path)
    watch.has_changed()
    Path(writer.path, layout.TENSORS, WORKER, "new.safetensors.part").touch()
    assert not watch.has_changed()


def test_tensors_are_found_in_an_old_folder_that_changes(writer: RunWriter) -> None:
    folder = TensorIndex(writer.path, WORKER)
    settle(writer)
    assert [each.step for each in folder.read_new()] == [0]
    assert folder.read_new() == []
    writer.write(float_tensors(1, {"a.weight": [1.0]}))
    assert [each.step for each in folder.read_new()] == [1]
    assert folder.read_new() == []


def test_an_unchanged_folder_is_not_listed_again(writer: RunWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = TensorIndex(writer.path, WORKER)
    settle(writer)
    folder.read_new()
    monkeypatch.setattr(os, "listdir", lambda path: pytest.fail(f"{path} was listed"))
    assert folder.read_new() == []
