"""What a worker captures for rules that came while it ran."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from leadline.records.plan import CaptureItem, Schedule
from leadline.records.request import RULE, Request
from leadline.store.control import read_acknowledgements
from leadline.training.session.added_rules import AddedRuleCaptures

ITEM = CaptureItem("gradients", statistics=("abs_mean",), schedule=Schedule(every=10), source="rule:small")


def widening(run: Path, followed: list[int]) -> AddedRuleCaptures:
    return AddedRuleCaptures(str(run), worker=lambda: "rank0-1", step=lambda: 8, follow=lambda: followed.append(1))


def ask(identifier: str, *items: object) -> Request:
    return Request(identifier, RULE, parameters={"items": list(items)})


def test_more_is_captured_once_and_said(tmp_path: Path) -> None:
    followed: list[int] = []
    widened = widening(tmp_path, followed)
    widened.take(ask("1", asdict(ITEM)))
    widened.take(ask("2", asdict(ITEM)))
    widened.take(ask("3"))
    assert (widened.items, followed) == ((ITEM,), [1])
    assert [(each.worker, each.step, each.outcome) for each in read_acknowledgements(str(tmp_path))] == [
        ("rank0-1", 7, "taken: captures abs_mean of gradients, too"),
        ("rank0-1", 7, "taken: that is captured already"),
        ("rank0-1", 7, "taken: nothing more need be captured"),
    ]


def test_what_cannot_be_read_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    followed: list[int] = []
    widened = widening(tmp_path, followed)
    widened.take(ask("1", {"collection": "gradients"}))
    widened.take(ask("2", {**asdict(ITEM), "colour": "red"}))
    widened.take(ask("3", 7))
    assert (widened.items, followed) == ((), [])
    assert all(each.outcome.startswith("refused: it cannot be read") for each in read_acknowledgements(str(tmp_path)))
    assert len(read_acknowledgements(str(tmp_path))) == 3
