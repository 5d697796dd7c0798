"""Actions in processes of their own: in order, retried after a failure, and never blocking the judge."""

from __future__ import annotations

import multiprocessing.connection
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from children import running_children
from recording_actions import ACTIONS, REFUSED, Reports, closing, finding, spec, wait_until

from leadline.judge import action_queue, action_transports
from leadline.judge.action_queue import ActionQueue
from leadline.judge.action_transports import ActionProcess
from leadline.judge.delivery import JobContext
from leadline.records.documents import LoggedAction

DONE = LoggedAction(state="done", outcome="sent")


def is_readable(descriptor: int) -> bool:
    """Return whether data arrives within 20 ms."""
    return bool(multiprocessing.connection.wait([descriptor], 0.02))


def action_workers() -> list[psutil.Process]:
    """Return the action workers that this process started; a test process may have other children."""
    return running_children("leadline.judge.action_worker")


class QueueRig:
    """A queue and the file of its action, advanced by the test."""

    def __init__(self, folder: Path, reports: Reports, name: str = "Note", **parameters: Any) -> None:
        self.path, self.reports = folder / "noted", reports
        parameters = {"path": str(self.path), "backoff": 0.05, **parameters}
        setup = {"run": str(folder), "action": f"mine.py:{name}", "parameters": parameters, "folder": str(folder)}
        self.others: list[QueueRig] = []
        context = JobContext(lambda: (), lambda place: True, lambda *announcement: None)
        self.queue = ActionQueue(spec(name, str(folder)), str(folder), ActionProcess(setup), reports, context)

    def script(self, words: str) -> None:
        (self.path.parent / "noted.do").write_text(words)

    @property
    def noted(self) -> list[str]:
        return self.path.read_text().split() if self.path.exists() else []

    def advance(self) -> None:
        descriptor = self.queue.descriptor
        if descriptor is not None and is_readable(descriptor):
            self.queue.receive()
        self.queue.advance(time.monotonic())

    def deliver(self, *notices: Any, known: LoggedAction | None = None) -> None:
        for each in notices:
            self.queue.add(each, known)
        wait_until(lambda: not self.queue.pending, self.advance)

    def close(self) -> None:
        self.queue.close()
        wait_until(lambda: self.queue.descriptor is None, self.advance)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[QueueRig]:
    (tmp_path / "mine.py").write_text(ACTIONS)
    made = QueueRig(tmp_path, Reports())
    yield made
    for each in (made, *made.others):
        each.queue.give_up("the test is over")
        each.close()


def replaced(rig: QueueRig, name: str = "Note", **parameters: Any) -> QueueRig:
    rig.others.append(QueueRig(rig.path.parent, rig.reports, name, **parameters))
    return rig.others[-1]


def test_no_process_is_started_before_the_first_notification(rig: QueueRig) -> None:
    rig.advance()
    assert rig.queue.descriptor is None


def test_notifications_are_delivered_in_order_by_one_process_that_is_closed_at_the_end(rig: QueueRig) -> None:
    rig.deliver(finding(1), finding(2), closing(2))
    rig.deliver(finding(3))
    rig.close()
    ids = ["e/opened/1", "e/opened/2", "e/closed/2", "e/opened/3"]
    assert rig.noted == [*ids, "closed"]
    assert rig.reports.final == [(each, "done", f"noted {each}") for each in ids]


def test_a_failed_delivery_is_retried_before_the_next_one(rig: QueueRig) -> None:
    rig.script("fail fail later")
    rig.deliver(finding(1), finding(2))
    assert rig.noted == ["e/opened/1"] * 4 + ["e/opened/2"]
    assert rig.reports.all == [
        ("e/opened/1", "asked", f"in progress; the first attempt failed: {REFUSED}"),
        ("e/opened/1", "done", "noted e/opened/1"),
        ("e/opened/2", "done", "noted e/opened/2"),
    ]


@pytest.mark.parametrize(
    ("words", "attempts", "why"),
    [
        ("fail fail fail", 3, f"failed after 3 attempts: {REFUSED}"),
        ("refuse", 1, "failed: 404 Not Found"),
        ("fail refuse", 2, "failed after 2 attempts: 404 Not Found"),
        ("die die die", 3, "failed after 3 attempts: its process was killed by SIGKILL"),
        ("leave leave leave", 3, "failed after 3 attempts: its process exited with status 3"),
    ],
)
def test_a_final_failure_is_reported_and_the_next_notification_is_delivered(
    rig: QueueRig, words: str, attempts: int, why: str
) -> None:
    rig = replaced(rig, retries=2)
    rig.script(words)
    rig.deliver(finding(1), finding(2))
    assert rig.noted == ["e/opened/1"] * attempts + ["e/opened/2"]
    assert rig.reports.final == [("e/opened/1", "failed", why), ("e/opened/2", "done", "noted e/opened/2")]
    rig.close()


def test_an_action_that_hangs_is_killed_and_retried(rig: QueueRig) -> None:
    rig = replaced(rig, retries=1, timeout=1.0)
    rig.script("hang hang")
    rig.deliver(finding(1))
    assert rig.reports.final == [("e/opened/1", "failed", "failed after 2 attempts: gave no answer for 1 s")]
    assert action_workers() == []


def test_an_action_that_cannot_be_constructed_fails_every_notification_without_another_process(rig: QueueRig) -> None:
    rig = replaced(rig, "Note", path="$UNSET_HERE")
    rig.deliver(finding(1), finding(2))
    assert rig.reports.final == [
        (each, "failed", "failed: $UNSET_HERE is not set") for each in ("e/opened/1", "e/opened/2")
    ]
    assert rig.queue.descriptor is None


def test_an_action_whose_import_never_ends_is_given_up(rig: QueueRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(action_transports, "START_SECONDS", 1.0)
    monkeypatch.setattr(action_queue, "_DEFAULT_POLICY", replace(action_queue._DEFAULT_POLICY, retries=1, backoff=0.05))
    (rig.path.parent / "mine.py").write_text("import time\ntime.sleep(3600)\n")
    rig.deliver(finding(1))
    assert rig.reports.final == [("e/opened/1", "failed", "failed after 2 attempts: gave no answer for 1 s")]


def test_within_the_cool_down_nothing_is_delivered_not_even_the_closing(rig: QueueRig) -> None:
    rig = replaced(rig, cooldown=60.0)
    later = 61 * 10**9
    rig.deliver(finding(1), finding(2), closing(2), closing(1), finding(3, time_ns=later), finding(2, "other"))
    assert rig.noted == ["e/opened/1", "e/closed/1", "e/opened/3", "other/opened/2"]
    assert [each[1:] for each in rig.reports.final[1:3]] == [
        ("skipped", "skipped: within the cool-down of 60 s"),
        ("skipped", "skipped: its opening was not delivered"),
    ]
    rig.close()


def test_a_finding_that_could_not_be_delivered_starts_no_cool_down(rig: QueueRig) -> None:
    rig = replaced(rig, cooldown=60.0, retries=0)
    rig.script("fail")
    rig.deliver(finding(1), finding(2))
    assert rig.reports.results == [("e/opened/1", "failed"), ("e/opened/2", "done")]
    rig.close()


def test_once_stays_once_after_a_restart_of_the_judge(rig: QueueRig) -> None:
    rig = replaced(rig, episodes="once")
    rig.deliver(finding(1), known=DONE)
    rig.deliver(finding(2))
    assert rig.noted == []
    assert rig.reports.results == [("e/opened/2", "skipped")]
    rig.close()


def test_only_volatile_actions_are_performed_again_after_a_restart(rig: QueueRig) -> None:
    rig.deliver(finding(1), known=DONE)
    assert rig.reports.final == []
    gauge = replaced(rig, "Gauge")
    gauge.deliver(finding(1), known=DONE)
    assert gauge.noted == ["e/opened/1"]
    gauge.close()


def test_a_request_of_a_custom_action_stays_asked_and_is_made_once(rig: QueueRig) -> None:
    rig = replaced(rig, "Requests")
    rig.deliver(finding(7))
    assert rig.reports.all == [("e/opened/7", "asked", "asked to note")]
    rig.deliver(finding(7), known=LoggedAction(state="asked", request="request-7"))
    assert rig.noted == ["e/opened/7"]
    rig.close()


def test_a_dry_run_is_described(rig: QueueRig) -> None:
    rig = replaced(rig, dry_run=True)
    rig.deliver(finding(1))
    assert rig.reports.final == [("e/opened/1", "dry run", "dry run: would run Note")]
    rig.close()
    assert rig.noted == ["closed"]


def test_a_delivery_that_is_given_up_reports_how_the_last_attempt_failed(rig: QueueRig) -> None:
    rig = replaced(rig, backoff=3600.0)
    rig.script("fail")
    rig.queue.add(finding(1))
    rig.queue.add(finding(2))
    wait_until(lambda: rig.noted, rig.advance)
    wait_until(lambda: rig.queue._waiting[0].why, rig.advance)
    rig.queue.give_up("the run had ended")
    assert rig.reports.final == [
        ("e/opened/1", "given up", f"given up: the run had ended (last of 1 attempts: {REFUSED})"),
        ("e/opened/2", "given up", "given up: the run had ended"),
    ]
    rig.close()
    assert rig.noted == ["e/opened/1", "closed"]


def test_an_action_worker_that_reads_nothing_blocks_nothing(rig: QueueRig) -> None:
    """A notification larger than a pipe, for a process that is stopped."""
    rig.deliver(finding(1))
    (worker,) = action_workers()
    worker.suspend()
    rig.queue.add(replace(finding(2), message="x" * (1 << 20)))
    for _ in range(20):
        rig.queue.advance(time.monotonic())
    assert rig.queue.pending == 1
    worker.resume()
    wait_until(lambda: not rig.queue.pending, rig.advance)
    assert rig.reports.results[-1] == ("e/opened/2", "done")


def test_the_environment_and_the_command_line_have_no_secret(rig: QueueRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME_OF_NOTES", str(rig.path))
    rig = replaced(rig, path="$HOME_OF_NOTES")
    rig.deliver(finding(1))
    (worker,) = action_workers()
    assert os.environ["HOME_OF_NOTES"] not in " ".join(worker.cmdline())
    assert rig.noted == ["e/opened/1"]
    rig.close()
