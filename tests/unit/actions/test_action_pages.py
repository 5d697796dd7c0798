"""docs/actions.md and docs/events.md say what the classes say."""

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
from notices import occasion

from leadline.actions.action import Action
from leadline.actions.registry import BUILT_IN, find_action, make_action
from leadline.actions.sagemaker_event import DETAIL_TYPE, SOURCE, detail
from leadline.records.notification import Notification, RuleState, TensorSnapshot
from leadline.store.documents import encode

ROOT = Path(__file__).resolve().parents[3]
MADE = runpy.run_path(str(ROOT / "scripts" / "action_pages.py"))
ACTIONS = (ROOT / "docs" / "actions.md").read_text()
EVENTS = (ROOT / "docs" / "events.md").read_text()


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def rows(page: str, above: str) -> list[str]:
    """The fields of the first table below a line."""
    table = page[page.index(above) :].partition("|---|---|\n")[2].partition("\n\n")[0]
    return re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)


def test_the_page_is_as_the_classes_have_it() -> None:
    assert ACTIONS.partition(MADE["MARK"])[2] == MADE["page"]().removeprefix(MADE["MARK"]), (
        "run: python scripts/action_pages.py"
    )


def test_every_action_has_a_section_and_none_is_of_an_action_that_is_no_more() -> None:
    assert set(MADE["EXAMPLES"]) == set(BUILT_IN)


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_an_action_documents_every_parameter_of_its_own(name: str) -> None:
    action = find_action(name)
    general = {each.name for each in msgspec.structs.fields(Action)}
    own = [each.name for each in msgspec.structs.fields(action) if each.name not in general]
    _, said = MADE["_read"](action)
    assert [each for each in said if each not in general] == own


def test_the_example_of_an_action_of_ones_own_works(tmp_path: Path) -> None:
    (code,) = blocks(ACTIONS, "python")
    (tmp_path / "my_actions.py").write_text(code)
    action = make_action("my_actions.py:WriteLine", {"path": str(tmp_path / "fired.txt")}, str(tmp_path))
    assert action.run(occasion()).outcome == f"one line to {tmp_path / 'fired.txt'}"
    assert (tmp_path / "fired.txt").read_text() == "loud: loss is NaN, and 28 more tensors\n"


@pytest.mark.parametrize("page", ["actions", "events"])
def test_the_pages_name_files_and_sections_that_are_there(page: str) -> None:
    text = {"actions": ACTIONS, "events": EVENTS}[page]
    for link in re.findall(r"\]\((?!https)([^)]+)\)", text):
        name, _, anchor = link.partition("#")
        target = (ROOT / "docs" / name).read_text()
        assert not anchor or f"\n## {anchor}\n" in target
    for path in re.findall(r"`(tests/[\w/.]+)`", text):
        assert (ROOT / path).is_file()


def test_the_example_of_a_notice_is_one() -> None:
    example = json.loads(blocks(EVENTS, "json")[0])
    notice = Notification.from_dict(example)
    assert json.loads(encode(notice.to_dict())) == example
    assert notice.tensors[0].statistics["abs_max"] == float("inf")


@pytest.mark.parametrize(
    ("above", "kind"), [("| field |", Notification), ("Of each tensor:", TensorSnapshot), ("Of each rule:", RuleState)]
)
def test_every_field_is_described_in_its_order_and_stands_in_the_example(above: str, kind: Any) -> None:
    example = json.loads(blocks(EVENTS, "json")[0])
    shown = {Notification: example, TensorSnapshot: example["tensors"][0], RuleState: example["rules"][0]}[kind]
    assert rows(EVENTS[EVENTS.index(above) - 1 :], above) == list(shown)
    assert [each for each in shown if each != "format"] == [each.name for each in fields(kind)]


def test_the_example_for_amazon_is_what_comes_of_that_notice() -> None:
    notice, event = map(json.loads, blocks(EVENTS, "json"))
    made = json.loads(detail(Notification.from_dict(notice)))
    whole = made.pop("leadline")
    part = event["detail"].pop("leadline")
    assert (event["source"], event["detail-type"], event["detail"]) == (SOURCE, DETAIL_TYPE, made)
    assert part.items() <= whole.items()


def test_the_consumer_is_the_one_that_is_tested() -> None:
    (shown,) = blocks(EVENTS, "python")
    script = (ROOT / "tests" / "process" / "scripts" / "event_consumer.py").read_text()
    assert textwrap.indent(shown, "    ").rstrip() in script
    assert len(script.splitlines()) <= 20
