"""run_command: what it asks for, and that the shell alone resolves what stands in the command."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from leadline.actions.action import ActionContext
from leadline.actions.registry import make_action
from leadline.actions.run_command import RunCommand
from leadline.config.secrets import missing, resolve
from leadline.errors import ConfigurationError
from leadline.records.notification import Notification
from leadline.store import control, layout

NOTICE = Notification("e/opened/7", "finding", "a", "/a", "IssuesFound", 0, rule="e", step=7, message="loss is NaN")
COMMAND = "curl -H \"Bearer $TOKEN\" 'https://h/?a=b,c=d'"


def occasion(path: Path, notice: Notification = NOTICE) -> ActionContext:
    os.makedirs(path / layout.ACKS, exist_ok=True)
    return ActionContext(str(path), notice, (), 5)


def test_it_asks_the_agent_with_the_command_as_it_was_written(tmp_path: Path) -> None:
    outcome = RunCommand(command=COMMAND, timeout=7.0).run(occasion(tmp_path))
    (request,) = control.read_requests(str(tmp_path))
    assert (request.kind, request.by, request.reason, request.time_ns) == ("run_command", "rule:e", "loss is NaN", 5)
    assert request.parameters == {
        "command": COMMAND,
        "timeout": 7.0,
        "notice": json.loads(json.dumps(NOTICE.to_dict())),
    }
    assert (outcome.outcome, outcome.request) == (f"asked to run {COMMAND}", request.id)


def test_of_the_job_nobody_in_particular_asks(tmp_path: Path) -> None:
    RunCommand(command="true").run(occasion(tmp_path, Notification("job/Failed", "job_status", "a", "/a", "Failed", 0)))
    (request,) = control.read_requests(str(tmp_path))
    assert request.by == "action"


def test_a_dry_run_asks_for_nothing(tmp_path: Path) -> None:
    long = "echo " + "x" * 200 + "\nrm everything"
    assert RunCommand(command="true").describe(occasion(tmp_path)) == "would run true"
    said = RunCommand(command=long, dry_run=True).describe(occasion(tmp_path))
    assert said == f"would run {long[:78]} …"
    assert control.read_requests(str(tmp_path)) == []


def test_its_variables_are_neither_required_nor_resolved() -> None:
    made = make_action("run_command", {"command": COMMAND, "retries": "2"})
    assert (made.target, made.place, made.retries, made.statuses) == ("command", "agent", 2, ("IssuesFound",))
    parameters = {"command": "for i in 1 2; do echo $i $$; done"}
    assert missing(parameters, {}, RunCommand.verbatim) == ()
    assert resolve(parameters, {"i": "secret"}, RunCommand.verbatim) == (parameters, ())


@pytest.mark.parametrize("command", ["", "  ", "a\0b"])
def test_what_is_no_command_is_refused(command: str) -> None:
    with pytest.raises(ConfigurationError, match="there is no command; write --on 'RULE=run_command:COMMAND'"):
        RunCommand(command=command)
