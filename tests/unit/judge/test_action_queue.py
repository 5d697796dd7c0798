"""Actions that couriers do: in order, again after a failure, and never in the judge's way."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from following import ACTIONS, REFUSED, Reports, closing, finding, spec, wait_until

from leadline.judge import action_process, action_queue
from leadline.judge.action_queue import ActionQueue
from leadline.store.actions import Line

DONE: Line = {"state": "done", "outcome": "sent", "request": None, "step": None}


def is_readable(descriptor: int) -> bool:
    """Whether something comes within a moment; ``select`` itself knows no descriptor beyond 1,023."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(20))


class Desk:
    """A lane with its file, turned by hand."""

    def __init__(self, folder: Path, reports: Reports, name: str = "Note", **parameters: Any) -> None:
        self.path, self.reports = folder / "noted", reports
        given = {"path": str(self.path), "backoff": 0.05, **parameters}
        order = {"run": str(folder), "action": f"mine.py:{name}", "parameters": given, "folder": str(folder)}
        self.others: list[Desk] = []
        self.lane = ActionQueue(spec(name, str(folder)), order, reports, lambda: ())

    def script(self, words: str) -> None:
        (self.path.parent / "noted.do").write_text(words)

    @property
    def noted(self) -> list[str]:
        return self.path.read_text().split() if self.path.exists() else []

    def turn(self) -> None:
        descriptor = self.lane.descriptor
        if descriptor is not None and is_readable(descriptor):
            self.lane.hear()
        self.lane.turn(time.monotonic())

    def deliver(self, *notices: Any, known: Line | None = None) -> None:
        for each in notices:
            self.lane.add(each, known)
        wait_until(lambda: not self.lane.pending, self.turn)

    def close(self) -> None:
        self.lane.close()
        wait_until(lambda: self.lane.descriptor is None, self.turn)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    (tmp_path / "mine.py").write_text(ACTIONS)
    made = Desk(tmp_path, Reports())
    yield made
    for each in (made, *made.others):
        each.lane.give_up("the test is over")
        each.close()


def replaced(desk: Desk, name: str = "Note", **parameters: Any) -> Desk:
    desk.others.append(Desk(desk.path.parent, desk.reports, name, **parameters))
    return desk.others[-1]


def test_nothing_runs_before_the_first_notice(desk: Desk) -> None:
    desk.turn()
    assert desk.lane.descriptor is None


def test_notices_are_delivered_in_order_by_one_process_that_is_closed_at_the_end(desk: Desk) -> None:
    desk.deliver(finding(1), finding(2), closing(2))
    desk.deliver(finding(3))
    desk.close()
    ids = ["e/opened/1", "e/opened/2", "e/closed/2", "e/opened/3"]
    assert desk.noted == [*ids, "closed"]
    assert desk.reports.final == [(each, "done", f"noted {each}") for each in ids]


def test_what_fails_is_tried_again_before_what_comes_next(desk: Desk) -> None:
    desk.script("fail fail later")
    desk.deliver(finding(1), finding(2))
    assert desk.noted == ["e/opened/1"] * 4 + ["e/opened/2"]
    assert desk.reports.all == [
        ("e/opened/1", "asked", f"under way; the first try failed: {REFUSED}"),
        ("e/opened/1", "done", "noted e/opened/1"),
        ("e/opened/2", "done", "noted e/opened/2"),
    ]


@pytest.mark.parametrize(
    ("words", "tries", "why"),
    [
        ("fail fail fail", 3, f"failed after 3 tries: {REFUSED}"),
        ("refuse", 1, "failed: 404 Not Found"),
        ("fail refuse", 2, "failed after 2 tries: 404 Not Found"),
        ("die die die", 3, "failed after 3 tries: its process was ended by SIGKILL"),
        ("leave leave leave", 3, "failed after 3 tries: its process ended with status 3"),
    ],
)
def test_what_fails_for_good_is_said_and_the_next_is_delivered(desk: Desk, words: str, tries: int, why: str) -> None:
    desk = replaced(desk, retries=2)
    desk.script(words)
    desk.deliver(finding(1), finding(2))
    assert desk.noted == ["e/opened/1"] * tries + ["e/opened/2"]
    assert desk.reports.final == [("e/opened/1", "failed", why), ("e/opened/2", "done", "noted e/opened/2")]
    desk.close()


def test_one_that_hangs_is_killed_and_tried_again(desk: Desk) -> None:
    desk = replaced(desk, retries=1, timeout=1.0)
    desk.script("hang hang")
    desk.deliver(finding(1))
    assert desk.reports.final == [("e/opened/1", "failed", "failed after 2 tries: gave no answer for 1 s")]
    assert psutil.Process().children() == []


def test_one_that_cannot_be_made_fails_each_notice_and_starts_no_process_again(desk: Desk) -> None:
    desk = replaced(desk, "Note", path="$UNSET_HERE")
    desk.deliver(finding(1), finding(2))
    assert desk.reports.final == [
        (each, "failed", "failed: $UNSET_HERE is not set") for each in ("e/opened/1", "e/opened/2")
    ]
    assert desk.lane.descriptor is None


def test_one_whose_import_never_ends_is_given_up(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (action_process, action_queue):
        monkeypatch.setattr(module, "START_SECONDS", 1.0)
    monkeypatch.setattr(action_queue, "_UNTOLD", replace(action_queue._UNTOLD, retries=1, backoff=0.05))
    (desk.path.parent / "mine.py").write_text("import time\ntime.sleep(3600)\n")
    desk.deliver(finding(1))
    assert desk.reports.final == [("e/opened/1", "failed", "failed after 2 tries: gave no answer for 1 s")]


def test_within_a_cool_down_nothing_is_told_not_even_the_closing(desk: Desk) -> None:
    desk = replaced(desk, cooldown=60.0)
    later = 61 * 10**9
    desk.deliver(finding(1), finding(2), closing(2), closing(1), finding(3, time_ns=later), finding(2, "other"))
    assert desk.noted == ["e/opened/1", "e/closed/1", "e/opened/3", "other/opened/2"]
    assert [each[1:] for each in desk.reports.final[1:3]] == [
        ("skipped", "skipped: within its cool-down of 60 s"),
        ("skipped", "skipped: its opening was not told"),
    ]
    desk.close()


def test_a_finding_that_could_not_be_told_begins_no_cool_down(desk: Desk) -> None:
    desk = replaced(desk, cooldown=60.0, retries=0)
    desk.script("fail")
    desk.deliver(finding(1), finding(2))
    assert desk.reports.results == [("e/opened/1", "failed"), ("e/opened/2", "done")]
    desk.close()


def test_once_stays_once_for_a_judge_that_begins_again(desk: Desk) -> None:
    desk = replaced(desk, episodes="once")
    desk.deliver(finding(1), known=DONE)
    desk.deliver(finding(2))
    assert desk.noted == []
    assert desk.reports.results == [("e/opened/2", "skipped")]
    desk.close()


def test_what_was_done_is_done_again_only_where_it_went_with_its_process(desk: Desk) -> None:
    desk.deliver(finding(1), known=DONE)
    assert desk.reports.final == []
    gauge = replaced(desk, "Gauge")
    gauge.deliver(finding(1), known=DONE)
    assert gauge.noted == ["e/opened/1"]
    gauge.close()


def test_what_a_strangers_action_asked_of_the_training_stays_asked_and_is_asked_once(desk: Desk) -> None:
    desk = replaced(desk, "Requests")
    desk.deliver(finding(7))
    assert desk.reports.all == [("e/opened/7", "asked", "asked to note")]
    desk.deliver(finding(7), known={"state": "asked", "request": "request-7"})
    assert desk.noted == ["e/opened/7"]
    desk.close()


def test_a_dry_run_is_described(desk: Desk) -> None:
    desk = replaced(desk, dry_run=True)
    desk.deliver(finding(1))
    assert desk.reports.final == [("e/opened/1", "dry run", "dry run: would run Note")]
    desk.close()
    assert desk.noted == ["closed"]


def test_what_is_given_up_says_how_the_last_try_failed(desk: Desk) -> None:
    desk = replaced(desk, backoff=3600.0)
    desk.script("fail")
    desk.lane.add(finding(1))
    desk.lane.add(finding(2))
    wait_until(lambda: desk.noted, desk.turn)
    wait_until(lambda: desk.lane._waiting[0].why, desk.turn)
    desk.lane.give_up("the run had ended")
    assert desk.reports.final == [
        ("e/opened/1", "given up", f"given up: the run had ended (the last of 1 tries: {REFUSED})"),
        ("e/opened/2", "given up", "given up: the run had ended"),
    ]
    desk.close()
    assert desk.noted == ["e/opened/1", "closed"]


def test_a_courier_that_reads_nothing_holds_nobody_up(desk: Desk) -> None:
    """A notice larger than a pipe, for a process that is stopped."""
    desk.deliver(finding(1))
    (courier,) = psutil.Process().children()
    courier.suspend()
    desk.lane.add(replace(finding(2), message="x" * (1 << 20)))
    for _ in range(20):
        desk.lane.turn(time.monotonic())
    assert desk.lane.pending == 1
    courier.resume()
    wait_until(lambda: not desk.lane.pending, desk.turn)
    assert desk.reports.results[-1] == ("e/opened/2", "done")


def test_the_environment_and_the_command_line_have_no_secret(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME_OF_NOTES", str(desk.path))
    desk = replaced(desk, path="$HOME_OF_NOTES")
    desk.deliver(finding(1))
    (courier,) = psutil.Process().children()
    assert os.environ["HOME_OF_NOTES"] not in " ".join(courier.cmdline())
    assert desk.noted == ["e/opened/1"]
    desk.close()
