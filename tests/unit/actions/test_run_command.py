"""run_command: its request, and variables that only the shell resolves."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from leadline.actions.action import ActionContext
from leadline.actions.registry import make_action
from leadline.actions.run_command import RunCommand
from leadline.config.variables import missing, resolve
from leadline.errors import ConfigurationError
from leadline.records.notification import Notification
from leadline.records.request import ExecuteCommand
from leadline.store import control, layout

NOTICE = Notification("e/opened/7", "finding", "a", "/a", "IssuesFound", 0, rule="e", step=7, message="loss is NaN")
COMMAND = "curl -H \"Bearer $TOKEN\" 'https://h/?a=b,c=d'"


def make_context(path: Path, notification: Notification = NOTICE) -> ActionContext:
    os.makedirs(path / layout.ACKS, exist_ok=True)
    return ActionContext(str(path), notification, (), 5)


def test_the_request_has_the_command_as_written(tmp_path: Path) -> None:
    outcome = RunCommand(command=COMMAND, timeout=7.0).run(make_context(tmp_path))
    (request,) = control.read_requests(str(tmp_path))
    assert (request.kind, request.by, request.reason, request.time_ns) == ("run_command", "rule:e", "loss is NaN", 5)
    assert isinstance(request, ExecuteCommand)
    assert (request.command, request.timeout) == (COMMAND, 7.0)
    assert request.notice == json.loads(json.dumps(NOTICE.to_dict()))
    assert (outcome.outcome, outcome.request) == (f"asked to run {COMMAND}", request.id)


def test_the_request_of_a_job_status_names_no_rule(tmp_path: Path) -> None:
    RunCommand(command="true").run(
        make_context(tmp_path, Notification("job/Failed", "job_status", "a", "/a", "Failed", 0))
    )
    (request,) = control.read_requests(str(tmp_path))
    assert request.by == "action"


def test_a_dry_run_makes_no_request(tmp_path: Path) -> None:
    long = "echo " + "x" * 200 + "\nrm everything"
    assert RunCommand(command="true").describe(make_context(tmp_path)) == "would run true"
    said = RunCommand(command=long, dry_run=True).describe(make_context(tmp_path))
    assert said == f"would run {long[:78]} …"
    assert control.read_requests(str(tmp_path)) == []


def test_variables_of_the_command_are_neither_required_nor_resolved() -> None:
    made = make_action("run_command", {"command": COMMAND, "retries": "2"})
    assert (made.target, made.place, made.retries, made.statuses) == ("command", "agent", 2, ("IssuesFound",))
    parameters = {"command": "for i in 1 2; do echo $i $$; done"}
    assert missing(parameters, {}, RunCommand.verbatim) == ()
    assert resolve(parameters, {"i": "secret"}, RunCommand.verbatim) == (parameters, ())


@pytest.mark.parametrize("command", ["", "  ", "a\0b"])
def test_an_empty_command_is_refused(command: str) -> None:
    with pytest.raises(ConfigurationError, match="there is no command; write --on 'RULE=run_command:COMMAND'"):
        RunCommand(command=command)
