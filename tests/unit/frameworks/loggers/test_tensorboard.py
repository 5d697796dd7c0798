"""Which of a script's writers is told of a rule."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from leadline.frameworks.loggers.tensorboard import SummaryWriterTracker, _Boards


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


def titles(boards: _Boards) -> list[str]:
    return [each.title for each in boards.find()]


def test_the_oldest_that_is_open_and_none_that_is_gone() -> None:
    boards, first, second = _Boards(scalar), Writer("/first"), Writer("/second")
    assert titles(boards) == []
    for each in (first, second, first):
        boards.see(each)
    assert titles(boards) == ["TensorBoard /first"]
    first.file_writer = None
    assert titles(boards) == ["TensorBoard /second"]
    del second
    boards.see(first)
    assert titles(boards) == []
    first.file_writer = Events("/again")
    assert titles(boards) == ["TensorBoard /again"]


def test_none_where_wandb_follows_what_writers_write(monkeypatch: pytest.MonkeyPatch) -> None:
    boards, writer = _Boards(scalar), Writer("/first")
    boards.see(writer)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(patched={"tensorboard": []}))
    assert titles(boards) == ["TensorBoard /first"]
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(patched={"tensorboard": [("module", "EventsWriter")]}))
    assert titles(boards) == []


def test_the_summary_is_the_librarys_own_and_not_made_of_nan() -> None:
    given: list[float] = []

    def note(name: str, value: float) -> Any:
        given.append(value)
        return scalar(name, value)

    events = Events("/first")
    SummaryWriterTracker(events, note).log("leadline/e", float("nan"), 7)
    ((summary, step),) = events.summaries
    assert (summary.value[0].tag, step, given) == ("leadline/e", 7, [0.0])
    assert summary.value[0].simple_value != summary.value[0].simple_value
