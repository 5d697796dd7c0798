"""Captures of a worker for rules added while it runs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from leadline.records.plan import CaptureItem, Schedule
from leadline.records.request import RULE, Request
from leadline.store.control import read_acknowledgements
from leadline.training.session.added_rules import AddedRuleCaptures
from leadline.training.step_context import StepContext

ITEM = CaptureItem("gradients", statistics=("abs_mean",), schedule=Schedule(every=10), source="rule:small")


def make(run: Path, changes: list[int]) -> AddedRuleCaptures:
    context = StepContext(str(run), lambda: "rank0-1")
    context.clock.step = 8
    return AddedRuleCaptures(context, lambda: changes.append(1))


def ask(identifier: str, *items: object) -> Request:
    return Request(identifier, RULE, parameters={"items": list(items)})


def test_new_items_are_captured_once_and_acknowledged(tmp_path: Path) -> None:
    changes: list[int] = []
    captures = make(tmp_path, changes)
    captures.handle(ask("1", asdict(ITEM)))
    captures.handle(ask("2", asdict(ITEM)))
    captures.handle(ask("3"))
    assert (captures.items, changes) == ((ITEM,), [1])
    assert [(answer.worker, answer.step, answer.outcome) for answer in read_acknowledgements(str(tmp_path))] == [
        ("rank0-1", 7, "taken: also captures abs_mean of gradients"),
        ("rank0-1", 7, "taken: already captured"),
        ("rank0-1", 7, "taken: no further captures needed"),
    ]


def test_an_invalid_request_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    changes: list[int] = []
    captures = make(tmp_path, changes)
    captures.handle(ask("1", {"collection": "gradients"}))
    captures.handle(ask("2", {**asdict(ITEM), "colour": "red"}))
    captures.handle(ask("3", 7))
    assert (captures.items, changes) == ((), [])
    assert all(answer.outcome.startswith("refused: invalid request") for answer in read_acknowledgements(str(tmp_path)))
    assert len(read_acknowledgements(str(tmp_path))) == 3
