"""Stored actions: the latest state of each, completed by acknowledgements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leadline.records.request import Acknowledgement, Answer
from leadline.store import layout
from leadline.store.control import acknowledge, joint_answer, read_actions, result_of
from leadline.store.documents import append_line, make_folder


@pytest.fixture
def run(tmp_path: Path) -> str:
    make_folder(str(tmp_path / layout.CONTROL))
    return str(tmp_path)


def write(run: str, **changes: Any) -> None:
    line = {
        "rule": "r",
        "action": "a",
        "outcome": "under way",
        "state": "asked",
        "time_ns": 1,
        "step": None,
        "request": None,
        "finding": 7,
        "notice": "r/opened/7",
        "attempts": 0,
    }
    append_line(f"{run}/{layout.ACTIONS}", line | changes)


def answer(outcome: str, worker: str = "rank0-1", step: int = 12) -> Acknowledgement:
    return Acknowledgement("17", worker, step, 5, Answer.parse(outcome))


def test_a_run_without_actions_has_none(run: str) -> None:
    assert read_actions(run) == []


def test_the_last_line_of_a_notification_and_action_counts(run: str) -> None:
    write(run)
    write(run, action="b")
    write(run, notice="r/opened/9")
    write(run, entry=1)
    write(run, state="done", outcome="sent", attempts=2)
    assert [(line.action, line.notice, line.state) for line in read_actions(run)] == [
        ("a", "r/opened/7", "done"),
        ("b", "r/opened/7", "asked"),
        ("a", "r/opened/9", "asked"),
        ("a", "r/opened/7", "asked"),
    ]


def test_lines_of_the_first_version_are_done(run: str) -> None:
    append_line(f"{run}/{layout.ACTIONS}", {"rule": "r", "action": "a", "outcome": "x", "finding": 7, "request": None})
    (line,) = read_actions(run)
    assert (line.state, line.outcome) == ("done", "x")


def test_an_acknowledgement_after_the_judges_end_completes_a_request(run: str) -> None:
    write(run, outcome="stop requested at step 12", request="17")
    assert read_actions(run)[0].state == "asked"
    acknowledge(run, "17", "rank0-1", 12, Answer())
    (line,) = read_actions(run)
    assert (line.state, line.outcome) == ("done", "stop requested at step 12: applied at step 12")


@pytest.mark.parametrize(
    ("answers", "result"),
    [
        ([answer("taken"), answer("taken", "rank1-2", 13)], ("done", "asked: applied at step 13")),
        ([answer("taken", "agent-node", -1)], ("done", "asked: applied")),
        ([answer("refused: no"), answer("taken")], ("done", "asked: applied at step 12")),
        ([answer("refused: no"), answer("refused: nor here")], ("failed", "refused: no")),
        ([answer("failed: exit 1")], ("failed", "failed: exit 1")),
        ([answer("logged to wandb run abc")], ("done", "logged to wandb run abc")),
    ],
)
def test_one_acceptance_is_enough(answers: list[Acknowledgement], result: tuple[str, str]) -> None:
    answer = joint_answer(answers)
    assert ("done", result_of("asked", answers)) == result if answer.is_accepted else ("failed", str(answer)) == result
