"""Acting: which actions follow a notice, what is written of them, and what the terminal is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from following import ACTIONS, closing, finding, spec, wait_until

from leadline.judge import action_dispatcher
from leadline.judge.action_dispatcher import ActionDispatcher, JobContext
from leadline.records.manifest import ActionSpec, Manifest
from leadline.records.notification import Notification
from leadline.store import control, layout
from leadline.store.actions import read_actions
from leadline.store.documents import make_folder, read_lines

JOB = Notification("job/Completed", "job_status", "run", "/run", "Completed", 0, previous="InProgress")
REACHED = Notification("e/status/Error/none", "rule_status", "run", "/run", "Error", 0, rule="e", previous="InProgress")
DECIDED = replace(REACHED, id="e/status/InProgress/clear", status="InProgress", verdict="clear")


class Scene:
    """The actions of a run whose training still runs."""

    def __init__(self, run: Path, *actions: ActionSpec) -> None:
        self.run = str(run)
        make_folder(f"{run}/{layout.CONTROL}")
        self.said: list[tuple[str, str, bool]] = []
        manifest = Manifest("run", self.run, (), 0, "0.1.0", actions=actions, folder=self.run)
        around = JobContext(lambda: (), lambda place: True, lambda *said: self.said.append(said))
        self.acting = ActionDispatcher(self.run, manifest, around)

    def lines(self) -> list[dict[str, Any]]:
        return read_lines(f"{self.run}/{layout.ACTIONS}")

    def finish(self) -> None:
        def turn() -> None:
            for lane in self.acting.lanes:
                if lane.descriptor is not None:
                    lane.hear()
            self.acting.turn()

        wait_until(lambda: not self.acting.pending, turn)
        self.acting.give_up("the test is over")
        self.acting.close()
        wait_until(lambda: all(lane.descriptor is None for lane in self.acting.lanes), turn)


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
def test_who_follows_what(tmp_path: Path, rule: str, statuses: tuple[str, ...], followed: list[str]) -> None:
    scene = Scene(tmp_path, stop(rule, *statuses, dry_run=True))
    for notice in (finding(7), closing(7), REACHED, replace(DECIDED, previous="InProgress"), JOB):
        scene.acting.follow(notice)
    assert [each["notice"] for each in scene.lines()] == followed
    assert scene.acting.wants_statuses == (statuses != ("IssuesFound",) or rule == "job")


def test_all_actions_of_a_rule_are_done_and_each_is_written_down(tmp_path: Path) -> None:
    scene = Scene(tmp_path, stop("e", grace=5.0), stop("*", dry_run=True), stop("other"))
    assert scene.acting.follow(finding(7)) == "stopping at step 8"
    (request,) = control.read_requests(scene.run)
    first, second = scene.lines()
    assert {key: first[key] for key in first if key != "time_ns"} == {
        "rule": "e",
        "action": "stop_training",
        "outcome": "asked to stop at step 8",
        "state": "asked",
        "step": 8,
        "request": request.id,
        "finding": 7,
        "notice": "e/opened/7",
        "attempts": 1,
    }
    assert (second["state"], second["outcome"], second["entry"]) == (
        "dry run",
        "dry run: would ask to stop at step 8",
        1,
    )


def test_a_notice_is_followed_once_in_a_judges_life_and_once_by_its_successors(tmp_path: Path) -> None:
    actions = (stop(), stop(dry_run=True))
    scene = Scene(tmp_path, *actions)
    for _ in range(2):
        scene.acting.follow(finding(7))
    before = scene.lines()
    assert len(before) == 2
    Scene(tmp_path, *actions).acting.follow(finding(7))
    assert scene.lines() == before


def test_what_was_under_way_when_a_judge_died_is_done_by_the_next_and_what_was_done_is_not(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ACTIONS)
    action = spec("Note", str(tmp_path), path=str(tmp_path / "noted"))
    first = Scene(tmp_path, action)
    first.acting.follow(finding(1))
    first.finish()
    first.acting.follow(finding(2))
    assert [each["state"] for each in read_actions(first.run)] == ["done", "asked"]
    second = Scene(tmp_path, action)
    for step in (1, 2):
        second.acting.follow(finding(step))
    second.finish()
    assert (tmp_path / "noted").read_text().split() == ["e/opened/1", "closed", "e/opened/2", "closed"]
    assert [each["state"] for each in second.lines()] == ["asked", "done", "asked", "done"]


def test_failures_are_told_in_the_terminal_the_first_few_times(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ACTIONS)
    (tmp_path / "noted.do").write_text("refuse " * 5)
    action = replace(spec("Note", str(tmp_path), path=str(tmp_path / "noted")), spoken="note:$PATH")
    scene = Scene(tmp_path, action)
    for step in range(7):
        scene.acting.follow(finding(step))
    scene.finish()
    failure = ("e", "note:$PATH failed: 404 Not Found", True)
    assert scene.said == [
        failure,
        failure,
        failure,
        ("e", "note:$PATH: further failures are not told one by one", True),
        ("e", "note:$PATH: noting", False),
    ]


def test_a_rules_own_parameters_may_ask_for_an_action_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path, stop("f", grace=1.0))
    for _ in range(2):
        scene.acting.imply("e", ["StopTraining"])
    scene.acting.imply("f", ["stop_training"])
    assert len(scene.acting.lanes) == 2
    assert scene.acting.follow(finding(7)) == "stopping at step 8"


def test_an_action_that_is_unknown_today_fails_in_its_own_process(tmp_path: Path) -> None:
    scene = Scene(tmp_path, ActionSpec("*", "gone_since"))
    scene.acting.follow(finding(7))
    scene.finish()
    assert scene.lines()[-1]["outcome"].startswith("failed: no action named 'gone_since'")


def test_what_the_disk_refuses_is_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    scene = Scene(tmp_path, stop(dry_run=True))
    with monkeypatch.context() as full:
        full.setattr(action_dispatcher, "append_line", refuse)
        scene.acting.follow(finding(7))
        assert scene.lines() == []
    scene.acting.turn()
    assert [each["notice"] for each in scene.lines()] == ["e/opened/7"]


def test_a_judge_that_does_not_act_has_no_actions(tmp_path: Path) -> None:
    manifest = Manifest("run", str(tmp_path), (), 0, "0.1.0", actions=(stop(),))
    around = JobContext(lambda: (), lambda place: True, lambda *said: None)
    idle = ActionDispatcher(str(tmp_path), manifest, around, is_acting=False)
    assert (idle.lanes, idle.pending, idle.wants_statuses) == ([], [], False)
