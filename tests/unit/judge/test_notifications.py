"""Notifications of a run: reported once, under an id that does not depend on the judge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from leadline.judge.notifications import Notifications
from leadline.records.documents import RunStatus, Transition
from leadline.records.finding import Finding
from leadline.records.manifest import Manifest
from leadline.records.notification import Notification, RuleState
from leadline.records.outcome import RunOutcome

MANIFEST = Manifest("a-run", "/runs/a-run", ("python",), 1000, "0.1.0")
OPENED = Finding(
    1, "e", 7, 7, True, 2000, "loss is NaN", "a lower rate", ("loss",), 1, "rank0-1", {"nonfinite_count": 1}
)
STATE = RuleState("e", "exploding_tensor", "InProgress", None)
FIRED = replace(STATE, status="IssuesFound", verdict="fired", is_open=True)


@pytest.fixture
def notices() -> Notifications:
    return Notifications("/runs/a-run", MANIFEST)


def test_a_finding_contains_everything_known(notices: Notifications) -> None:
    said = notices.of_finding(OPENED, "finding", [FIRED])
    assert (said.id, said.kind, said.status, said.previous) == ("e/opened/7", "finding", "IssuesFound", "InProgress")
    assert (said.run, said.uri, said.started_ns, said.time_ns) == ("a-run", "/runs/a-run", 1000, 2000)
    assert (said.rule, said.kind_of_rule, said.step, said.worker) == ("e", "exploding_tensor", 7, "rank0-1")
    assert (said.message, said.suggestion, said.evidence) == ("loss is NaN", "a lower rate", {"nonfinite_count": 1})
    assert [each.name for each in said.tensors] == ["loss"]
    assert said.rules == (FIRED,)


def test_a_finding_names_its_cause(notices: Notifications) -> None:
    assert notices.of_finding(OPENED, "finding", [FIRED]).explained_by is None
    said = notices.of_finding(OPENED, "finding", [FIRED], explained_by="loss_spike")
    assert said.to_dict()["explained_by"] == "loss_spike"


def test_a_closing_names_the_opening_and_the_last_step(notices: Notifications) -> None:
    notices.of_finding(OPENED, "finding", [FIRED])
    closed = replace(OPENED, is_open=False, last_step=9)
    said = notices.of_finding(closed, "closed", [replace(FIRED, is_open=False)])
    assert (said.id, said.step, said.previous) == ("e/closed/7", 9, "IssuesFound")
    assert said.message == "resolved, last seen at step 9: loss is NaN"


def test_two_findings_at_one_step_have_different_ids_also_after_a_restart(notices: Notifications) -> None:
    other = replace(OPENED, id=2)
    first = [notices.of_finding(each, "finding", [FIRED]).id for each in (OPENED, other)]
    assert first == ["e/opened/7", "e/opened/7/2"]
    assert [notices.of_finding(each, "finding", [FIRED]).id for each in (OPENED, other)] == first
    notices.restart("e")
    assert [notices.of_finding(each, "finding", [FIRED]).id for each in (OPENED, other)] == first
    assert notices.of_finding(other, "closed", [FIRED]).id == "e/closed/7/2"


def told(found: list[Notification]) -> list[tuple[Any, ...]]:
    return [(each.id, each.previous, each.status, each.verdict) for each in found]


def test_rules_are_reported_at_the_start_and_when_they_change(notices: Notifications) -> None:
    other = replace(STATE, name="v")
    assert told(notices.of_rules([STATE, other])) == [
        ("e/status/InProgress/none", None, "InProgress", None),
        ("v/status/InProgress/none", None, "InProgress", None),
    ]
    assert notices.of_rules([STATE, other]) == []
    clear = replace(other, verdict="clear")
    assert told(notices.of_rules([STATE, clear])) == [
        ("v/status/InProgress/clear", "InProgress", "InProgress", "clear")
    ]
    broken = replace(clear, status="Error", verdict=None, why="ValueError: no")
    (said,) = notices.of_rules([STATE, broken])
    assert (said.id, said.message, said.why) == ("v/status/Error/none", "failed: ValueError: no", "ValueError: no")


def test_a_repeated_verdict_has_its_own_id(notices: Notifications) -> None:
    clear = replace(STATE, verdict="clear")
    found = [notices.of_rules([each])[0].id for each in (STATE, clear, STATE, clear)]
    assert found == [
        "e/status/InProgress/none",
        "e/status/InProgress/clear",
        "e/status/InProgress/none/2",
        "e/status/InProgress/clear/2",
    ]


def test_a_finding_is_not_reported_again_as_a_status(notices: Notifications) -> None:
    notices.of_rules([STATE])
    notices.of_finding(OPENED, "finding", [FIRED])
    assert notices.of_rules([FIRED]) == []
    assert notices.of_finding(replace(OPENED, id=2, step=9), "finding", [FIRED]).previous == "IssuesFound"


def status(*names: str, **fields: Any) -> RunStatus:
    transitions = tuple(Transition(name, index) for index, name in enumerate(names))
    return RunStatus(**{"status": names[-1], "transitions": transitions, **fields})


OUTCOME = RunOutcome("Stopped at step 7 by e: loss is NaN", advice="a lower rate")


def test_every_transition_of_the_job_is_reported_once(notices: Notifications) -> None:
    found = notices.of_job(status("Starting", "InProgress"), [], None)
    assert told(found) == [
        ("job/Starting", None, "Starting", None),
        ("job/InProgress", "Starting", "InProgress", None),
    ]
    assert notices.of_job(status("Starting", "InProgress"), [], None) == []
    (ended,) = notices.of_job(status("Starting", "InProgress", "Completed"), [], OUTCOME)
    assert (ended.id, ended.previous, ended.rule, ended.time_ns) == ("job/Completed", "InProgress", None, 2)
    resumed = status("Starting", "InProgress", "Completed", "InProgress")
    assert notices.of_job(resumed, [], None)[0].id == "job/InProgress/2"


def test_the_end_of_the_job_waits_for_its_outcome(notices: Notifications) -> None:
    document = status("Starting", "InProgress", "Stopped", stopped_by="rule:e", exit_status=10)
    assert [each.status for each in notices.of_job(document, [], None)] == ["Starting", "InProgress"]
    assert notices.of_job(document, [], None) == []
    (ended,) = notices.of_job(document, [], OUTCOME)
    assert ended.message == "Stopped at step 7 by e: loss is NaN. Try: a lower rate."
    assert ended.evidence == {"exit_status": 10, "stopped_by": "rule:e"}


def test_a_stop_that_was_requested_names_who_did(notices: Notifications) -> None:
    (notification,) = notices.of_job(status("Stopping", stopped_by="rule:nan"), [], None)
    assert notification.message == "the run is being stopped by nan"


def test_the_end_of_a_run_whose_agent_is_gone_is_reported_once(notices: Notifications) -> None:
    notices.of_job(status("Starting", "InProgress"), [], None)
    gone = status("Starting", "InProgress", status="Interrupted")
    assert notices.of_job(gone, [], None) == []
    (ended,) = notices.of_job(gone, [], OUTCOME)
    assert (ended.id, ended.status, ended.previous) == ("job/Interrupted", "Interrupted", "InProgress")
    assert notices.of_job(gone, [], OUTCOME) == []


def test_a_notification_has_the_status_of_the_job(notices: Notifications) -> None:
    notices.of_job(status("Starting", "InProgress"), [], None)
    assert notices.of_finding(OPENED, "finding", [FIRED]).job_status == "InProgress"
