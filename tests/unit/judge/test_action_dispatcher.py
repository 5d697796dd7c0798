"""The action dispatcher: which actions follow a notification, what is logged, and what is announced."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from recording_actions import ACTIONS, closing, finding, spec, wait_until

from leadline.judge import action_dispatcher
from leadline.judge.action_dispatcher import ActionDispatcher, JobContext
from leadline.records.manifest import ActionSpec, Manifest
from leadline.records.notification import Notification
from leadline.store import control, layout
from leadline.store.control import read_actions
from leadline.store.documents import make_folder, read_lines

JOB = Notification("job/Completed", "job_status", "run", "/run", "Completed", 0, previous="InProgress")
REACHED = Notification("e/status/Error/none", "rule_status", "run", "/run", "Error", 0, rule="e", previous="InProgress")
DECIDED = replace(REACHED, id="e/status/InProgress/clear", status="InProgress", verdict="clear")


class Scenario:
    """The actions of a run whose training is still running."""

    def __init__(self, run: Path, *actions: ActionSpec) -> None:
        self.run = str(run)
        make_folder(f"{run}/{layout.CONTROL}")
        self.announced: list[tuple[str, str, bool]] = []
        manifest = Manifest("run", self.run, (), 0, "0.1.0", actions=actions, folder=self.run)
        context = JobContext(lambda: (), lambda place: True, lambda *announcement: self.announced.append(announcement))
        self.dispatcher = ActionDispatcher(self.run, manifest, context)

    def lines(self) -> list[dict[str, Any]]:
        return read_lines(f"{self.run}/{layout.ACTIONS}")

    def finish(self) -> None:
        def advance() -> None:
            for queue in self.dispatcher.queues:
                if queue.descriptor is not None:
                    queue.receive()
            self.dispatcher.advance()

        wait_until(lambda: not self.dispatcher.pending, advance)
        self.dispatcher.give_up("the test is over")
        self.dispatcher.close()
        wait_until(lambda: all(queue.descriptor is None for queue in self.dispatcher.queues), advance)


def stop(rule: str = "*", *statuses: str, **parameters: Any) -> ActionSpec:
    return ActionSpec(rule, "stop_training", statuses or ("IssuesFound",), parameters)


@pytest.mark.parametrize(
    ("rule", "statuses", "followed"),
    [
        ("e", ("IssuesFound",), ["e/opened/7"]),
        ("*", ("IssuesFound",), ["e/opened/7"]),
        ("other", ("*",), []),
        ("e", ("Error",), ["e/status/Error/none"]),
        ("*", ("InProgress",), []),
        ("e", ("*",), ["e/opened/7", "e/closed/7", "e/status/Error/none", "e/status/InProgress/clear"]),
        (
            "*",
            ("*",),
            ["e/opened/7", "e/closed/7", "e/status/Error/none", "e/status/InProgress/clear", "job/Completed"],
        ),
        ("job", ("Completed",), ["job/Completed"]),
        ("job", ("Failed",), []),
        ("*", ("Completed",), []),
    ],
)
def test_actions_follow_the_statuses_of_their_rules(
    tmp_path: Path, rule: str, statuses: tuple[str, ...], followed: list[str]
) -> None:
    scenario = Scenario(tmp_path, stop(rule, *statuses, dry_run=True))
    for notification in (finding(7), closing(7), REACHED, replace(DECIDED, previous="InProgress"), JOB):
        scenario.dispatcher.dispatch(notification)
    assert [each["notice"] for each in scenario.lines()] == followed
    assert scenario.dispatcher.needs_statuses == (statuses != ("IssuesFound",) or rule == "job")


@pytest.mark.parametrize(
    ("rule", "statuses", "is_followed"),
    [("*", ("IssuesFound",), False), ("*", ("*",), True), ("e", ("IssuesFound",), True)],
)
def test_an_action_on_every_rule_is_not_told_of_what_another_finding_explains(
    tmp_path: Path, rule: str, statuses: tuple[str, ...], is_followed: bool
) -> None:
    scenario = Scenario(tmp_path, stop(rule, *statuses, dry_run=True))
    scenario.dispatcher.dispatch(replace(finding(7), explained_by="cause"))
    assert bool(scenario.lines()) == is_followed


@pytest.mark.parametrize(
    ("rule", "severity", "is_followed"), [("*", "advice", False), ("*", "warning", True), ("e", "advice", True)]
)
def test_advice_stops_a_training_only_where_its_rule_is_named(
    tmp_path: Path, rule: str, severity: str, is_followed: bool
) -> None:
    scenario = Scenario(tmp_path, stop(rule, dry_run=True))
    scenario.dispatcher.dispatch(replace(finding(7), severity=severity))
    assert bool(scenario.lines()) == is_followed


def test_all_actions_of_a_rule_are_performed_and_logged(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path, stop("e", grace=5.0), stop("*", dry_run=True), stop("other"))
    assert scenario.dispatcher.dispatch(finding(7)) == "stopping at the next step"
    (request,) = control.read_requests(scenario.run)
    first, second = scenario.lines()
    assert {key: first[key] for key in first if key != "time_ns"} == {
        "rule": "e",
        "action": "stop_training",
        "outcome": "stop requested at step 8",
        "state": "asked",
        "step": 8,
        "request": request.id,
        "finding": 7,
        "notice": "e/opened/7",
        "attempts": 1,
        "entry": 0,
    }
    assert (second["state"], second["outcome"], second["entry"]) == (
        "dry run",
        "dry run: would ask to stop at step 8",
        1,
    )
    assert scenario.announced == [("e", "stop_training: dry run: would ask to stop at step 8", False)]


def test_only_the_first_dry_runs_are_announced(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path, stop(dry_run=True))
    for at in range(10):
        scenario.dispatcher.dispatch(finding(at))
    assert len(scenario.lines()) == 10
    assert [message.partition(": ")[2] for _, message, _ in scenario.announced][2:] == [
        "dry run: would ask to stop at step 3",
        "further dry runs are not listed",
    ]


def test_a_notification_is_delivered_once_also_after_a_restart_of_the_judge(tmp_path: Path) -> None:
    actions = (stop(), stop(dry_run=True))
    scenario = Scenario(tmp_path, *actions)
    for _ in range(2):
        scenario.dispatcher.dispatch(finding(7))
    before = scenario.lines()
    assert len(before) == 2
    Scenario(tmp_path, *actions).dispatcher.dispatch(finding(7))
    assert scenario.lines() == before


def test_the_next_judge_completes_what_was_in_progress_and_repeats_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ACTIONS)
    action = spec("Note", str(tmp_path), path=str(tmp_path / "noted"))
    first = Scenario(tmp_path, action)
    first.dispatcher.dispatch(finding(1))
    first.finish()
    first.dispatcher.dispatch(finding(2))
    assert [each.state for each in read_actions(first.run)] == ["done", "asked"]
    second = Scenario(tmp_path, action)
    for step in (1, 2):
        second.dispatcher.dispatch(finding(step))
    second.finish()
    assert (tmp_path / "noted").read_text().split() == ["e/opened/1", "closed", "e/opened/2", "closed"]
    assert [each["state"] for each in second.lines()] == ["asked", "done", "asked", "done"]


def test_the_first_few_failures_are_announced_in_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ACTIONS)
    (tmp_path / "noted.do").write_text("refuse " * 5)
    action = replace(spec("Note", str(tmp_path), path=str(tmp_path / "noted")), display_name="note:$PATH")
    scenario = Scenario(tmp_path, action)
    for step in range(7):
        scenario.dispatcher.dispatch(finding(step))
    scenario.finish()
    failure = ("e", "note:$PATH failed: 404 Not Found", True)
    assert scenario.announced == [
        failure,
        failure,
        failure,
        ("e", "note:$PATH: further failures are not listed", True),
        ("e", "note:$PATH: noting", False),
    ]


def test_the_parameters_of_a_rule_may_imply_an_action_once(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path, stop("f", grace=1.0))
    for _ in range(2):
        scenario.dispatcher.add_implied("e", ["StopTraining"])
    scenario.dispatcher.add_implied("f", ["stop_training"])
    assert len(scenario.dispatcher.queues) == 2
    assert scenario.dispatcher.dispatch(finding(7)) == "stopping at the next step"


def test_an_action_that_no_longer_exists_fails_in_its_own_process(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path, ActionSpec("*", "gone_since"))
    scenario.dispatcher.dispatch(finding(7))
    scenario.finish()
    assert scenario.lines()[-1]["outcome"].startswith("failed: no action named 'gone_since'")


def test_lines_that_cannot_be_written_are_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    scenario = Scenario(tmp_path, stop(dry_run=True))
    with monkeypatch.context() as full:
        full.setattr(action_dispatcher, "append_line", refuse)
        scenario.dispatcher.dispatch(finding(7))
        assert scenario.lines() == []
    scenario.dispatcher.advance()
    assert [each["notice"] for each in scenario.lines()] == ["e/opened/7"]


def test_a_judge_that_does_not_act_has_no_actions(tmp_path: Path) -> None:
    manifest = Manifest("run", str(tmp_path), (), 0, "0.1.0", actions=(stop(),))
    context = JobContext(lambda: (), lambda place: True, lambda *announcement: None)
    idle = ActionDispatcher(str(tmp_path), manifest, context, is_acting=False)
    assert (idle.queues, idle.pending, idle.needs_statuses) == ([], [], False)
