"""``python -m leadline.agent``: the agent of a command that it launches, or of a process that it attaches to."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Final

from leadline.agent.agent import Agent
from leadline.agent.job import AttachedJob, LaunchedJob, NodeRegistration
from leadline.agent.judge_supervisor import judge_command
from leadline.agent.launch import job_environment, resolve, why_unreachable, why_unstartable
from leadline.agent.run_documents import RunDocuments
from leadline.agent.signals import SignalGate
from leadline.agent.terminal import PREFIX, Terminal
from leadline.monitor.processes import identify
from leadline.store import layout
from leadline.store.presence import acquire_lock, node_name, release_lock

USAGE: Final = "usage: python -m leadline.agent RUN ([--quiet] -- COMMAND… | --attach PID [--lock DESCRIPTOR])"
WRONG_USE: Final = 2


@dataclass(frozen=True, slots=True)
class Arguments:
    """The parsed arguments of the agent."""

    run: str
    command: tuple[str, ...] = ()
    target: int | None = None
    """The pid of the process to attach to; None: the command is started."""
    lock: int | None = None
    """A descriptor that holds the node's lock, with which other processes of the node may join the run; None: none."""
    is_quiet: bool = False
    """Whether nothing is printed."""


def parse(arguments: list[str]) -> Arguments | None:
    """Return the parsed arguments; None: they are invalid."""
    match arguments:
        case [run, "--", program, *rest]:
            return Arguments(os.path.abspath(run), (program, *rest))
        case [run, "--quiet", "--", program, *rest]:
            return Arguments(os.path.abspath(run), (program, *rest), is_quiet=True)
        case [run, "--attach", pid] if pid.isdecimal():
            return Arguments(os.path.abspath(run), target=int(pid))
        case [run, "--attach", pid, "--lock", lock] if pid.isdecimal() and lock.isdecimal():
            return Arguments(os.path.abspath(run), target=int(pid), lock=int(lock))
    return None


def main(arguments: list[str], judge: list[str] | None = None, node: str | None = None) -> int:
    """Run the agent.

    Args:
        judge: The command that starts the judge; by default the one that is installed.
        node: The name of this node; by default the host name.
    Returns:
        The status to exit with.
    """
    parsed = parse(arguments)
    if parsed is None:
        return _refuse(USAGE)
    if not layout.is_run(parsed.run):
        return _refuse(f"no run at {parsed.run}; start one with: leadline run")
    gate = SignalGate()
    judge = judge or judge_command(parsed.run)
    if parsed.target is not None:
        return _attach(parsed, gate, judge, node or node_name())
    terminal = Terminal(os.open(os.devnull, os.O_WRONLY) if parsed.is_quiet else 2)
    return _launch(list(parsed.command), gate, RunDocuments(parsed.run, node or node_name()), judge, terminal)


def _attach(parsed: Arguments, gate: SignalGate, judge: list[str] | None, node: str) -> int:
    assert parsed.target is not None
    target = identify(parsed.target) or (parsed.target, 0)  # if it has ended already, its run remains to be closed
    if parsed.lock is None:
        return Agent(RunDocuments(parsed.run, node), AttachedJob(target), gate, judge=judge).run()
    os.set_inheritable(parsed.lock, False)
    path = os.path.join(parsed.run, layout.AGENT_LOCK)
    locks: list[int] = []

    def take_over() -> bool:
        lock = acquire_lock(path)
        locks.extend([] if lock is None else [lock])
        return lock is not None

    documents = RunDocuments(parsed.run, node, is_secondary=not take_over())
    job = AttachedJob(target, NodeRegistration(parsed.run, node, parsed.lock))
    try:
        return Agent(documents, job, gate, judge=judge, take_over=take_over).run()
    finally:
        for lock in locks:
            release_lock(lock, path)


def _launch(
    command: list[str], gate: SignalGate, documents: RunDocuments, judge: list[str] | None, terminal: Terminal
) -> int:
    command = resolve(command)
    problem = why_unstartable(command[0])
    if problem is not None:
        documents.abandon()
        return _refuse(problem)
    unreachable = why_unreachable(command, gate)
    environment = job_environment(os.environ, documents.run, documents.node, is_reachable=unreachable is None)
    job = LaunchedJob(command, environment, gate)
    agent = Agent(documents, job, gate, judge=judge, unwatched=unreachable, terminal=terminal)
    try:
        return agent.run()
    except OSError as error:
        if job.pid:
            raise  # the command has started
        agent.abandon()
        return _refuse(f"{command[0]} cannot be started: {error.strerror}")


def _refuse(problem: str) -> int:
    sys.stdout.flush()
    Terminal().write([f"{PREFIX}: {problem}"])
    return WRONG_USE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
