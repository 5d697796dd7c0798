"""``python -m leadline.agent``: the agent of a command that it launches, or of a process that it attaches to."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Final

from leadline.agent.agent import Agent
from leadline.agent.components import AgentComponents
from leadline.agent.election import Election
from leadline.agent.job import AttachedJob, LaunchedJob, NodeRegistration
from leadline.agent.judge_supervisor import judge_command
from leadline.agent.launch import job_environment, resolve, why_unreachable, why_unstartable
from leadline.agent.run_documents import RunDocuments
from leadline.agent.signals import SignalGate
from leadline.agent.started_manifest import StartedManifest, read_started_manifest
from leadline.agent.terminal import PREFIX, Terminal
from leadline.monitor.processes import identify
from leadline.records.documents import NodeDocument
from leadline.store import layout
from leadline.store.documents import make_folder, read_with_retries
from leadline.store.node_lock import acquire_lock, break_lock, mark_ready, node_name, register_process, release_lock

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
    node = node or node_name()
    manifest = read_started_manifest(parsed.run)
    judge = judge or judge_command(parsed.run, manifest.digest)
    if parsed.target is not None:
        return _attach(parsed, SignalGate(), judge, node, manifest)
    path = os.path.join(parsed.run, layout.node_lock(node))
    try:
        make_folder(os.path.dirname(path))
        lock = acquire_lock(path)
        if lock is None and _is_abandoned(parsed.run, node):
            break_lock(path)
            lock = acquire_lock(path)
    except OSError:  # a full disk: no other agent can join here
        return _launch(parsed, SignalGate(), node, judge, manifest)
    if lock is None:
        return _run_beside_agent(resolve(list(parsed.command)), parsed.run, node)
    mark_ready(lock)
    try:
        return _launch(parsed, SignalGate(), node, judge, manifest)
    finally:
        release_lock(lock, path)


def _is_abandoned(run: str, node: str) -> bool:
    """Return whether the agent that recorded this node is gone: not every file system releases its lock."""
    document = read_with_retries(os.path.join(run, layout.node_document(node)))
    pid = None if document is None else NodeDocument.from_dict(document).agent_pid
    return pid is not None and identify(pid) is None


def _run_beside_agent(command: list[str], run: str, node: str) -> int:
    """Become a further process of a run that has an agent on this node already."""
    register_process(run, node)
    environment = job_environment(os.environ, run, node, is_reachable=True)
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        return _refuse(f"{command[0]} cannot be started: {error.strerror}")


def _attach(parsed: Arguments, gate: SignalGate, judge: list[str] | None, node: str, manifest: StartedManifest) -> int:
    assert parsed.target is not None
    target = identify(parsed.target) or (parsed.target, 0)  # if it has ended already, its run remains to be closed
    registration = None
    if parsed.lock is not None:
        os.set_inheritable(parsed.lock, False)
        registration = NodeRegistration(parsed.run, node, parsed.lock)
    election, documents = _enter(parsed.run, node)
    job = AttachedJob(target, registration)
    return Agent(AgentComponents(documents, job, gate, election, judge=judge, manifest=manifest)).run()


def _enter(run: str, node: str) -> tuple[Election, RunDocuments]:
    """Find out whether this node's agent is the primary one of the run."""
    election = Election(run, node)
    election.poll()
    return election, RunDocuments(run, node, is_secondary=not election.is_primary)


def _launch(parsed: Arguments, gate: SignalGate, node: str, judge: list[str] | None, manifest: StartedManifest) -> int:
    command = resolve(list(parsed.command))
    election, documents = _enter(parsed.run, node)
    problem = why_unstartable(command[0])
    if problem is not None:
        documents.abandon()
        return _refuse(problem)
    unreachable = why_unreachable(command, gate)
    environment = job_environment(os.environ, documents.run, documents.node, is_reachable=unreachable is None)
    job = LaunchedJob(command, environment, gate, NodeRegistration(documents.run, node, None))
    terminal = Terminal(os.open(os.devnull, os.O_WRONLY) if parsed.is_quiet else 2)
    parts = AgentComponents(
        documents, job, gate, election, judge=judge, manifest=manifest, why_not_monitored=unreachable, terminal=terminal
    )
    agent = Agent(parts)
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
