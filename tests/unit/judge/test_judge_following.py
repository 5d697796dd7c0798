"""Notifications of a complete judge: every status from the start to the end, within the time limit at the end."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from recording_actions import ACTIONS, wait_until

from leadline.errors import LeadlineError
from leadline.judge import judge as judge_module
from leadline.judge.judge import Judge, judge_run
from leadline.judge.run_trust import RunTrust
from leadline.records.incarnations import Incarnation, Incarnations
from leadline.records.manifest import ActionSpec, RuleSpec
from leadline.store import layout
from leadline.store.control import read_actions
from leadline.store.documents import read_document, write_document
from leadline.testing.runs import Capture, Part, RunWriter

LOSSES: list[Part] = [Capture(step, {"loss": {"value": float("nan") if step == 7 else 1.0}}) for step in range(12)]
BOOK = '''

class Book(Note, frozen=True, kw_only=True):
    """Appends every notification to a file."""

    def run(self, context):
        with open(self.path, "a") as file:
            file.write(json.dumps(context.notification.to_dict()) + "\\n")
        return Outcome("kept")

    def close(self): ...
'''
WHOLE = RunTrust(is_whole=True)


def run_of(tmp_path: Path, *actions: ActionSpec, rules: tuple[str, ...] = ("exploding_tensor",)) -> RunWriter:
    (tmp_path / "mine.py").write_text(ACTIONS + BOOK)
    specs = [RuleSpec(name, name) for name in rules]
    return RunWriter(tmp_path / "run", rules=specs, actions=actions)


def action(tmp_path: Path, name: str, rule: str = "*", statuses: tuple[str, ...] = ("*",), **more: Any) -> ActionSpec:
    parameters = {"path": str(tmp_path / "noted"), **more}
    return ActionSpec(rule, f"mine.py:{name}", statuses, parameters, folder=str(tmp_path))


def test_an_action_that_follows_everything_receives_every_status_from_the_start_to_the_end(tmp_path: Path) -> None:
    rules = ("exploding_tensor", "vanishing_gradient")
    writer = run_of(tmp_path, action(tmp_path, "Book"), rules=rules).write_all(LOSSES).end()
    judge_run(writer.path, write=True, trust=WHOLE)
    told = [json.loads(line) for line in (tmp_path / "noted").read_text().splitlines()]
    of = {rule: [each["id"] for each in told if each["rule"] == rule] for rule in (None, *rules)}
    assert of == {
        None: ["job/Completed"],
        "exploding_tensor": [
            "exploding_tensor/status/InProgress/none",
            "exploding_tensor/opened/7",
            "exploding_tensor/closed/7",
        ],
        "vanishing_gradient": [
            "vanishing_gradient/status/InProgress/none",
            "vanishing_gradient/status/NoIssuesFound/undecided",
        ],
    }
    opened = next(each for each in told if each["id"] == "exploding_tensor/opened/7")
    assert [(each["name"], each["is_open"], each["findings"]) for each in opened["rules"]] == [
        ("exploding_tensor", True, 1),
        ("vanishing_gradient", False, 0),
    ]
    assert opened["tensors"][0]["name"] == "loss"
    closed = next(each for each in told if each["kind"] == "closed")
    assert not closed["rules"][0]["is_open"]
    last = {each["name"]: (each["status"], each["verdict"]) for each in told[-1]["rules"]}
    assert last == {"exploding_tensor": ("IssuesFound", "fired"), "vanishing_gradient": ("NoIssuesFound", "undecided")}
    assert {each.state for each in read_actions(writer.path)} == {"done"}


def test_a_restarted_judge_repeats_only_volatile_actions(tmp_path: Path) -> None:
    others = action(tmp_path, "Book", path=str(tmp_path / "book"))
    writer = run_of(tmp_path, action(tmp_path, "Gauge"), others).write_all(LOSSES).end()
    judge_run(writer.path, write=True, trust=WHOLE)
    once, kept = (tmp_path / "noted").read_text(), (tmp_path / "book").read_text()
    judge_run(writer.path, write=True, trust=WHOLE)
    assert (tmp_path / "noted").read_text() == once * 2
    assert (tmp_path / "book").read_text() == kept


def test_the_last_step_of_a_run_is_delivered_and_slow_deliveries_are_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_module, "DRAIN_SECONDS", 8.0)
    monkeypatch.setattr(judge_module, "_HEARTBEAT_SECONDS", 0.0)
    (tmp_path / "slow.do").write_text("hang")
    slow = action(tmp_path, "Note", path=str(tmp_path / "slow"), timeout=1000.0)
    writer = run_of(tmp_path, action(tmp_path, "Note", statuses=("IssuesFound",)), slow)
    judge = threading.Thread(target=lambda: judge_run(writer.path, write=True, follow=True, trust=WHOLE))
    judge.start()
    writer.write_all(
        [Capture(step, {"loss": {"value": float("nan") if step == 7 else 1.0}}) for step in range(8)]
    ).end()
    waiting: list[Any] = []

    def look() -> None:
        summary = read_document(f"{writer.path}/{layout.RULE_SUMMARY}") or {}
        waiting.extend([summary] if summary.get("delivering") else [])

    wait_until(lambda: not judge.is_alive(), look)
    assert waiting
    assert all(each["complete"] for each in waiting)
    assert waiting[-1]["delivering"] == ["mine.py:Note"]
    assert (tmp_path / "noted").read_text().split() == ["exploding_tensor/opened/7", "closed"]
    states = {(each.notice, each.entry): each.state for each in read_actions(writer.path)}
    assert states["exploding_tensor/opened/7", 0] == "done"
    assert states["exploding_tensor/opened/7", 1] == "given up"
    after = read_document(f"{writer.path}/{layout.RULE_SUMMARY}")
    assert (after["complete"], after["delivering"]) == (True, [])


def test_judging_without_writing_starts_no_action(tmp_path: Path) -> None:
    writer = run_of(tmp_path, action(tmp_path, "Note")).write_all(LOSSES).end()
    judge_run(writer.path, trust=WHOLE)
    assert not (tmp_path / "noted").exists()
    assert read_actions(writer.path) == []


def test_the_end_of_a_run_without_rules_is_delivered(tmp_path: Path) -> None:
    writer = run_of(tmp_path, action(tmp_path, "Note", "job", ("Failed",)), rules=()).end("Failed", 3)
    judge_run(writer.path, write=True, follow=True, trust=WHOLE)
    assert (tmp_path / "noted").read_text().split() == ["job/Failed", "closed"]


def test_the_judge_of_a_killed_agent_ends_once_the_run_is_resumed(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run").write_all([Capture(step, {"loss": {"value": 0.5}}) for step in range(3)])
    judge = Judge(writer.path, [])
    before = sorted(path.read_bytes() for path in tmp_path.rglob("*.json"))
    write_document(str(tmp_path / "run" / layout.INCARNATIONS), Incarnations((Incarnation(1, started_ns=1),)))
    with pytest.raises(LeadlineError, match="another agent continues the run"):
        judge.judge(follow=True)
    (tmp_path / "run" / layout.INCARNATIONS).unlink()
    assert sorted(path.read_bytes() for path in tmp_path.rglob("*.json")) == before
