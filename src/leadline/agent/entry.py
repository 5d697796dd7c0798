"""From the agent's arguments to its exit status."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Final

from leadline.agent.agent import Agent
from leadline.agent.job import AttachedJob, LaunchedJob
from leadline.agent.judge import judge_command
from leadline.agent.launch import job_environment, resolve, why_unreachable, why_unstartable
from leadline.agent.logbook import Logbook
from leadline.agent.signals import SignalGate
from leadline.agent.terminal import PREFIX, Terminal
from leadline.monitor.processes import identify
from leadline.store import layout

USAGE: Final = "usage: python -m leadline.agent RUN (-- COMMAND… | --attach PID)"
WRONG_USE: Final = 2


@dataclass(frozen=True, slots=True)
class Arguments:
    """What the agent was asked to do."""

    run: str
    command: tuple[str, ...] = ()
    target: int | None = None
    """The pid to attach to; None: the command is started."""


def parse(arguments: list[str]) -> Arguments | None:
    """The arguments, or None where they make no sense."""
    match arguments:
        case [run, "--", program, *rest]:
            return Arguments(os.path.abspath(run), (program, *rest))
        case [run, "--attach", pid] if pid.isdecimal():
            return Arguments(os.path.abspath(run), target=int(pid))
    return None


def node_name() -> str:
    """This machine's name, fit to be a file's."""
    return os.uname().nodename.replace("/", "_") or "node"


def main(arguments: list[str], judge: list[str] | None = None) -> int:
    """Run the agent.

    Args:
        judge: How the judge is started; without it, the one that is installed.
    """
    parsed = parse(arguments)
    if parsed is None:
        return _refuse(USAGE)
    if not layout.is_run(parsed.run):
        return _refuse(f"no run at {parsed.run}; start one with: leadline run")
    gate = SignalGate()
    logbook = Logbook(parsed.run, node_name())
    started = judge or judge_command(parsed.run)
    if parsed.target is not None:
        target = identify(parsed.target)
        if target is None:
            return _refuse(f"no process {parsed.target}")
        return Agent(logbook, AttachedJob(target), gate, judge=started).run()
    return _launch(list(parsed.command), gate, logbook, started)


def _launch(command: list[str], gate: SignalGate, logbook: Logbook, judge: list[str] | None) -> int:
    command = resolve(command)
    problem = why_unstartable(command[0])
    if problem is not None:
        logbook.abandon()
        return _refuse(problem)
    unreachable = why_unreachable(command, gate)
    environment = job_environment(os.environ, logbook.run, logbook.node, is_reachable=unreachable is None)
    job = LaunchedJob(command, environment, gate)
    agent = Agent(logbook, job, gate, judge=judge, unwatched=unreachable)
    try:
        return agent.run()
    except OSError as error:
        agent.abandon()
        return _refuse(f"{command[0]} cannot be started: {error.strerror}")


def _refuse(problem: str) -> int:
    sys.stdout.flush()
    Terminal().write([f"{PREFIX}: {problem}"])
    return WRONG_USE
