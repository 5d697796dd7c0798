"""Consistency of the pages about actions and events with the classes."""

from __future__ import annotations

import json
import re
import runpy
import textwrap
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import pytest
from notices import make_context

from leadline.actions.action import Action
from leadline.actions.put_event import DETAIL_TYPE, SOURCE, detail
from leadline.actions.registry import BUILT_IN, find_action, make_action
from leadline.records.notification import Notification, RuleState, TensorSnapshot
from leadline.store.documents import encode

ROOT = Path(__file__).resolve().parents[3]
MADE = runpy.run_path(str(ROOT / "scripts" / "action_pages.py"))
DOCS = ROOT / "docs"
HOW_TO = (DOCS / "how-to" / "actions.md").read_text()
ACTIONS = (DOCS / "reference" / "actions.md").read_text()
EVENTS = (DOCS / "reference" / "events.md").read_text()


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def rows(page: str, above: str) -> list[str]:
    """The fields of the first table below a line."""
    table = page[page.index(above) :].partition("|---|---|\n")[2].partition("\n\n")[0]
    return re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)


def test_the_page_matches_the_classes() -> None:
    assert ACTIONS.partition(MADE["MARK"])[2] == MADE["page"]().removeprefix(MADE["MARK"]), (
        "run: python scripts/action_pages.py"
    )


def test_every_action_has_a_section_and_no_section_is_obsolete() -> None:
    assert set(MADE["EXAMPLES"]) == set(BUILT_IN)


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_an_action_documents_all_its_parameters(name: str) -> None:
    action = find_action(name)
    general = {each.name for each in msgspec.structs.fields(Action)}
    own = [each.name for each in msgspec.structs.fields(action) if each.name not in general]
    _, said = MADE["_read"](action)
    assert [each for each in said if each not in general] == own


def test_the_example_of_a_custom_action_works(tmp_path: Path) -> None:
    (code,) = blocks(HOW_TO, "python")
    (tmp_path / "my_actions.py").write_text(code)
    action = make_action("my_actions.py:WriteLine", {"path": str(tmp_path / "fired.txt")}, str(tmp_path))
    assert action.run(make_context()).outcome == f"one line to {tmp_path / 'fired.txt'}"
    assert (tmp_path / "fired.txt").read_text() == "loud: loss is NaN, and 28 more tensors\n"


def test_paths_of_tests_are_valid() -> None:
    assert [path for path in re.findall(r"`(tests/[\w/.]+)`", EVENTS) if not (ROOT / path).is_file()] == []


def test_the_example_is_a_valid_notification() -> None:
    example = json.loads(blocks(EVENTS, "json")[0])
    notification = Notification.from_dict(example)
    assert json.loads(encode(notification.to_dict())) == example
    assert notification.tensors[0].statistics["abs_max"] == float("inf")


@pytest.mark.parametrize(
    ("above", "kind"),
    [("| field |", Notification), ("Fields of a tensor:", TensorSnapshot), ("Fields of a rule:", RuleState)],
)
def test_every_field_is_described_in_order_and_in_the_example(above: str, kind: Any) -> None:
    example = json.loads(blocks(EVENTS, "json")[0])
    shown = {Notification: example, TensorSnapshot: example["tensors"][0], RuleState: example["rules"][0]}[kind]
    assert rows(EVENTS[EVENTS.index(above) - 1 :], above) == list(shown)
    assert [each for each in shown if each != "format"] == [each.name for each in fields(kind)]


def test_the_example_for_amazon_matches_the_notification() -> None:
    notification, event = map(json.loads, blocks(EVENTS, "json"))
    made = json.loads(detail(Notification.from_dict(notification)))
    whole = made.pop("leadline")
    part = event["detail"].pop("leadline")
    assert (event["source"], event["detail-type"], event["detail"]) == (SOURCE, DETAIL_TYPE, made)
    assert part.items() <= whole.items()


def test_the_consumer_on_the_page_is_the_tested_one() -> None:
    (shown,) = blocks(EVENTS, "python")
    script = (ROOT / "tests" / "process" / "scripts" / "event_consumer.py").read_text()
    assert textwrap.indent(shown, "    ").rstrip() in script
    assert len(script.splitlines()) <= 20
