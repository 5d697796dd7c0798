"""tracker: the logged values, and the contents of the request."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

import pytest

from leadline.actions.action import ActionContext
from leadline.actions.registry import make_action
from leadline.actions.tracker import Tracker
from leadline.errors import ConfigurationError
from leadline.records.notification import Notification, NotificationKind, RuleState
from leadline.records.request import Track
from leadline.store import control, layout

FINDING = Notification("e/opened/7", "finding", "a", "/a", "IssuesFound", 0, rule="e", step=7, message="loss is NaN")


def make_context(path: Path, notification: Notification) -> ActionContext:
    os.makedirs(path / layout.ACKS, exist_ok=True)
    return ActionContext(str(path), notification, (), 1_000)


def changed(status: str, verdict: str | None, *, is_open: bool = False) -> Notification:
    states = (
        RuleState("other", "other", "IssuesFound", "fired", is_open=True),
        RuleState("e", "exploding_tensor", status, verdict, is_open=is_open),
    )
    return replace(FINDING, kind="rule_status", status=status, verdict=verdict, rules=states)


def asked(path: Path, notification: Notification) -> float:
    outcome = Tracker().run(make_context(path, notification))
    request = control.read_requests(str(path))[-1]
    assert outcome.request == request.id
    assert isinstance(request, Track)
    return request.value


def test_the_request_has_everything_that_a_worker_needs(tmp_path: Path) -> None:
    outcome = make_action("tracker", {"to": "mlflow"}).run(make_context(tmp_path, FINDING))
    (request,) = control.read_requests(str(tmp_path))
    assert isinstance(request, Track)
    assert (request.kind, request.by, request.rule, request.value) == ("track", "rule:e", "e", 1.0)
    assert (request.status, request.step, request.to) == ("IssuesFound", 7, "mlflow")
    assert request.message == "loss is NaN"
    assert (outcome.outcome, outcome.request) == ("asked to log 1", request.id)


@pytest.mark.parametrize(("kind", "value"), [("finding", 1.0), ("closed", 0.0)])
def test_an_episode_that_opens_or_closes(tmp_path: Path, kind: NotificationKind, value: float) -> None:
    assert asked(tmp_path, replace(FINDING, kind=kind)) == value


def test_a_finding_closes_after_its_last_step(tmp_path: Path) -> None:
    Tracker().run(make_context(tmp_path, replace(FINDING, kind="closed")))
    (request,) = control.read_requests(str(tmp_path))
    assert isinstance(request, Track)
    assert request.step == 8


def test_a_status_has_the_current_value_of_the_rule(tmp_path: Path) -> None:
    assert asked(tmp_path, changed("IssuesFound", "fired", is_open=True)) == 1.0
    assert asked(tmp_path, changed("IssuesFound", "fired")) == 0.0
    assert asked(tmp_path, changed("NoIssuesFound", "clear")) == 0.0


@pytest.mark.parametrize("notification", [changed("NoIssuesFound", "undecided"), changed("Error", None)])
def test_an_unknown_state_is_not_a_number(tmp_path: Path, notification: Notification) -> None:
    assert math.isnan(asked(tmp_path, notification))


def test_before_the_evaluation_there_is_nothing_to_log(tmp_path: Path) -> None:
    outcome = Tracker().run(make_context(tmp_path, changed("InProgress", None)))
    assert (outcome.outcome, outcome.request) == ("nothing to log: not evaluated yet", None)
    assert control.read_requests(str(tmp_path)) == []


def test_the_status_of_the_job_is_not_logged(tmp_path: Path) -> None:
    """Whoever asks for every status of every rule has asked for the job's too: that is no failure."""
    context = make_context(tmp_path, replace(FINDING, kind="job_status", rule=None))
    outcome = Tracker().run(context)
    assert (outcome.outcome, outcome.request) == ("nothing to log: only rules are logged", None)
    assert Tracker().describe(context) == outcome.outcome
    assert control.read_requests(str(tmp_path)) == []


def test_a_dry_run_makes_no_request(tmp_path: Path) -> None:
    assert Tracker().describe(make_context(tmp_path, FINDING)) == "would log leadline/e = 1"
    assert control.read_requests(str(tmp_path)) == []


def test_an_unknown_library_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="to must be"):
        make_action("tracker", {"to": "comet"})
