"""Execution of commands with fake processes: refusals, order and timeouts."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from leadline.agent import commands
from leadline.agent.commands import Commands, event_environment
from leadline.agent.signals import SignalGate
from leadline.process.child import Child
from leadline.records.documents import ManifestDocument, PlannedAction
from leadline.records.request import Answer, ExecuteCommand, request_from_dict
from leadline.store import control, layout
from leadline.training.bootstrap import SITE

ACTIONS = tuple(PlannedAction("run_command", {"command": name}) for name in "abc")
MANIFEST = ManifestDocument(folder="/", actions=ACTIONS)


class FakeChild:
    """A process that exits when the test says so."""

    is_overdue = Child.is_overdue

    def __init__(self, pid: int) -> None:
        self.pid, self.code, self.deadline = pid, cast(int | None, None), math.inf


class Machine:
    """Fake processes, and the gate that starts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started: list[str] = []
        self.environments: list[dict[str, str]] = []
        self.alive: dict[int, int] = {}
        """The number of processes of each session."""
        self.signals: list[tuple[int, int]] = []
        self.error: OSError | None = None
        self.children: dict[int, FakeChild] = {}
        self.sessions = {7}
        monkeypatch.setattr(commands, "_members", lambda session: [(session, 0)] * self.alive.get(session, 0))
        monkeypatch.setattr(commands, "_signal", lambda session, number: self.signals.append((session, number)))

    def spawn(self, words: list[str], environment: dict[str, str], **_: Any) -> FakeChild:
        if self.error is not None:
            raise self.error
        self.started.append(words[-1])
        self.environments.append(environment)
        pid = 100 + len(self.started)
        self.alive[pid] = 1
        self.children[pid] = FakeChild(pid)
        self.sessions.add(pid)
        return self.children[pid]


class Agent:
    """Commands, and their answers."""

    def __init__(self, run: Path, machine: Machine, environment: Mapping[str, str] | None = None) -> None:
        self.machine = machine
        self.answers: dict[str, str] = {}
        self.commands = Commands(str(run), MANIFEST, environment or {}, cast(SignalGate, machine), answer=self.answer)

    def answer(self, request: ExecuteCommand, answer: Answer) -> None:
        self.answers[request.id] = str(answer)

    def take(self, *names: str, **parameters: Any) -> None:
        for each in names:
            data = {"id": f"id-{each}", "kind": "run_command", "parameters": {"command": each} | parameters}
            self.commands.take(cast(ExecuteCommand, request_from_dict(data)))

    def exit(self, pid: int, code: int, now: float, *, leaving: int = 0) -> None:
        self.machine.alive[pid] = leaving
        self.machine.children[pid].code = code
        self.commands.advance(now)


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    return Agent(tmp_path, Machine(monkeypatch))


def test_commands_run_one_at_a_time_in_order(agent: Agent) -> None:
    agent.take("b", "a", "c")
    agent.commands.advance(0.0)
    agent.commands.advance(1.0)
    assert agent.machine.started == ["b"]
    agent.exit(101, 0, 2.0)
    assert agent.answers == {"id-b": "exit status 0 after 2.0 s"}
    assert agent.machine.started == ["b", "a"]
    agent.exit(102, 1, 3.0)
    agent.exit(103, -9, 3.5)
    assert agent.machine.started == ["b", "a", "c"]
    assert agent.answers["id-a"] == "failed: exit status 1 after 1.0 s"
    assert agent.answers["id-c"] == "failed: killed by SIGKILL after 500 ms"
    assert agent.commands.is_idle


def test_only_commands_of_the_manifest_are_run(agent: Agent) -> None:
    agent.take("d")
    agent.commands.take(ExecuteCommand("no-command"))
    agent.commands.take(ExecuteCommand("../../elsewhere", command="a"))
    agent.commands.advance(0.0)
    why = "refused: the run was not started with that command"
    assert agent.answers == {"id-d": why, "no-command": why}
    assert agent.machine.started == []
    assert agent.commands.is_idle


def test_older_requests_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / layout.CONTROL).mkdir()
    control.write_request(str(tmp_path), ExecuteCommand("id-a", command="a"))
    agent = Agent(tmp_path, Machine(monkeypatch))
    agent.take("a")
    assert agent.answers == {"id-a": "refused: it was requested before this agent started"}


def test_a_command_that_another_agent_has_started_is_refused(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / layout.COMMANDS).mkdir()
    (tmp_path / layout.command_output("id-a")).touch()
    agent.take("a", "b")
    agent.commands.advance(0.0)
    assert agent.answers == {"id-a": "refused: another agent has started it"}
    assert agent.machine.started == ["b"]


@pytest.mark.parametrize(("given", "limit"), [({"timeout": 2.0}, 2.0), ({}, 60.0), ({"timeout": "soon"}, 60.0)])
def test_the_timeout_is_exact_and_sigkill_follows_after_5_s(given: Any, limit: float, agent: Agent) -> None:
    agent.take("a", **given)
    agent.commands.advance(10.0)
    agent.commands.advance(10.0 + limit - 0.001)
    assert agent.machine.signals == []
    agent.commands.advance(10.0 + limit)
    agent.commands.advance(10.0 + limit + 4.999)
    assert agent.machine.signals == [(101, signal.SIGTERM)]
    agent.commands.advance(10.0 + limit + 5.0)
    assert agent.machine.signals == [(101, signal.SIGTERM), (101, signal.SIGKILL)]
    assert agent.answers == {}
    agent.exit(101, -9, 10.0 + limit + 5.0)
    assert agent.answers["id-a"].startswith("failed: timed out after ")


def test_the_next_command_waits_until_a_terminated_one_is_completely_gone(agent: Agent) -> None:
    agent.take("a", "b", timeout=1.0)
    agent.commands.advance(0.0)
    agent.commands.advance(1.0)
    agent.exit(101, -15, 1.1, leaving=2)
    assert agent.answers == {}
    agent.machine.alive[101] = 0
    agent.commands.advance(1.2)
    assert agent.answers["id-a"] == "failed: timed out after 1.0 s"
    assert agent.machine.started == ["a", "b"]


def test_the_session_of_a_command_is_excluded_while_it_has_processes(agent: Agent) -> None:
    agent.take("a", "b")
    agent.commands.advance(0.0)
    assert agent.machine.sessions == {7, 101}
    agent.exit(101, 0, 1.0, leaving=1)
    agent.exit(102, 0, 2.0)
    assert agent.machine.sessions == {7, 101}


def test_a_command_that_cannot_be_started_is_reported_and_the_next_one_runs(agent: Agent) -> None:
    agent.machine.error = OSError(7, "Argument list too long")
    agent.take("a")
    agent.commands.advance(0.0)
    agent.machine.error = None
    agent.take("b")
    agent.commands.advance(0.0)
    assert agent.answers == {"id-a": "failed: cannot be started: Argument list too long"}
    assert agent.machine.started == ["b"]


def test_no_command_is_started_after_the_end(agent: Agent) -> None:
    agent.take("a", "b")
    agent.commands.advance(0.0)
    agent.commands.end(1.0)
    agent.commands.end(1.1)
    assert agent.machine.signals == [(101, signal.SIGTERM)]
    agent.exit(101, -15, 1.2)
    assert agent.answers == {"id-b": "refused: the run had ended", "id-a": "failed: terminated at the end of the run"}
    assert agent.commands.is_idle
    agent.commands.close()


def test_the_environment_contains_no_job_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "LEADLINE_RUN": "/a",
        "LEADLINE_NODE": "n",
        "LEADLINE_DISABLED": "1",
        "LEADLINE_ROOT": "/r",
        "HOME": "/h",
        "PYTHONPATH": os.pathsep.join([SITE, "/mine"]),
    }
    agent = Agent(tmp_path, Machine(monkeypatch), given)
    agent.take("a")
    agent.commands.advance(0.0)
    (found,) = agent.machine.environments
    plain = {key: value for key, value in found.items() if not key.startswith("LEADLINE_EVENT_")}
    assert plain == {"LEADLINE_ROOT": "/r", "HOME": "/h", "PYTHONPATH": "/mine"}


def test_values_that_an_environment_cannot_contain_are_shortened() -> None:
    variables = event_environment({"message": "a\0b\ud800" + "x" * 10_000, "step": 0, "rule": None})
    assert variables["LEADLINE_EVENT_MESSAGE"] == ("ab?" + "x" * 10_000)[:4096]
    assert (variables["LEADLINE_EVENT_STEP"], variables["LEADLINE_EVENT_RULE"]) == ("0", "")
