"""Selection of the summary writer that a rule's status is logged to."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from leadline.frameworks.loggers.tensorboard import SummaryWriterTracker, _Writers


class Events:
    """A library's file writer."""

    def __init__(self, folder: str) -> None:
        self.folder, self.summaries = folder, list[tuple[Any, int]]()

    def get_logdir(self) -> str:
        return self.folder

    def add_summary(self, summary: Any, step: int) -> None:
        self.summaries.append((summary, step))


class Writer:
    def __init__(self, folder: str) -> None:
        self.file_writer: Events | None = Events(folder)


def scalar(name: str, value: float) -> Any:
    return SimpleNamespace(value=[SimpleNamespace(tag=name, simple_value=value)])


def titles(writers: _Writers) -> list[str]:
    return [tracker.title for tracker in writers.find()]


def test_the_oldest_open_writer_is_found() -> None:
    writers, first, second = _Writers(scalar), Writer("/first"), Writer("/second")
    assert titles(writers) == []
    for writer in (first, second, first):
        writers.note(writer)
    assert titles(writers) == ["TensorBoard /first"]
    first.file_writer = None
    assert titles(writers) == ["TensorBoard /second"]
    del second
    writers.note(first)
    assert titles(writers) == []
    first.file_writer = Events("/again")
    assert titles(writers) == ["TensorBoard /again"]


def test_no_writer_is_found_if_wandb_mirrors_tensorboard(monkeypatch: pytest.MonkeyPatch) -> None:
    writers, writer = _Writers(scalar), Writer("/first")
    writers.note(writer)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(patched={"tensorboard": []}))
    assert titles(writers) == ["TensorBoard /first"]
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(patched={"tensorboard": [("module", "EventsWriter")]}))
    assert titles(writers) == []


def test_the_summary_is_created_by_the_library_without_a_nan_argument() -> None:
    given: list[float] = []

    def note(name: str, value: float) -> Any:
        given.append(value)
        return scalar(name, value)

    events = Events("/first")
    SummaryWriterTracker(events, note).log("leadline/e", float("nan"), 7)
    ((summary, step),) = events.summaries
    assert (summary.value[0].tag, step, given) == ("leadline/e", 7, [0.0])
    assert summary.value[0].simple_value != summary.value[0].simple_value
