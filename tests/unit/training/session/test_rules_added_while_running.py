"""Captures of a worker for rules added while it runs."""

from __future__ import annotations

from pathlib import Path

from leadline.records.plan import CaptureItem, Schedule
from leadline.records.request import AddRules
from leadline.store.control import read_acknowledgements
from leadline.training.recorder.control_requests import AddedRuleCaptures
from leadline.training.step_context import StepContext

ITEM = CaptureItem("gradients", statistics=("abs_mean",), schedule=Schedule(every=10), source="rule:small")


def make(run: Path, changes: list[int]) -> AddedRuleCaptures:
    context = StepContext(str(run), lambda: "rank0-1")
    context.clock.step = 8
    return AddedRuleCaptures(context, lambda: changes.append(1))


def test_new_items_are_captured_once_and_acknowledged(tmp_path: Path) -> None:
    changes: list[int] = []
    captures = make(tmp_path, changes)
    captures.handle(AddRules("1", items=(ITEM,)))
    captures.handle(AddRules("2", items=(ITEM,)))
    captures.handle(AddRules("3"))
    assert (captures.items, changes) == ((ITEM,), [1])
    assert [
        (answer.worker, answer.step, str(answer.answer)) for (answer,) in read_acknowledgements(str(tmp_path)).values()
    ] == [
        ("rank0-1", 7, "taken: also captures abs_mean of gradients"),
        ("rank0-1", 7, "taken: already captured"),
        ("rank0-1", 7, "taken: no further captures needed"),
    ]
