"""Control requests that are addressed to the agent: stop (and its enforcement by signals), set and run_command."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace

from leadline.agent.commands import Commands
from leadline.agent.job import Job
from leadline.agent.judge_supervisor import JudgeSupervisor
from leadline.agent.run_documents import RunDocuments
from leadline.agent.signals import KILL_AFTER_SECONDS, SignalGate, send
from leadline.agent.terminal import Terminal
from leadline.agent.worker_tracker import WorkerTracker
from leadline.monitor.monitor import Monitor, set_interval
from leadline.monitor.processes import ProcessTree, children_first
from leadline.records.describe import AGENT
from leadline.records.documents import ManifestDocument
from leadline.records.formatting import counted, duration
from leadline.records.request import TRAINING_ENDED, Answer, ControlRequest, ExecuteCommand, SetInterval, Stop
from leadline.store import layout
from leadline.store.control import RequestReader, acknowledge, read_acknowledgements
from leadline.store.incarnations import read_incarnations


class StopSequence:
    """One stop request, from its arrival until every process of the job is gone.

    **Only the job** - no other process receives a signal.
    """

    def __init__(self, tree: ProcessTree, warn: Callable[[str], None]) -> None:
        self.request: Stop | None = None
        self.has_used_force = False
        """Whether signals were sent while the job was running."""
        self._tree, self._warn = tree, warn
        self._terminate_at = self._kill_at = float("inf")
        self._has_terminated = self._has_reported_kill = False
        self._grace = 0.0

    def begin(self, request: Stop, now: float, *, can_stop_itself: bool) -> None:
        """Start with a request.

        Signals follow at once if no process of the job can stop by itself, and never if the script may finish.
        """
        self.request = request
        self._grace = max(0.0, request.grace_seconds) if can_stop_itself else 0.0
        is_left = can_stop_itself and request.let_script_finish
        self._terminate_at = float("inf") if is_left else now + self._grace

    def advance(self, now: float, *, has_ended: bool) -> bool:
        """Send the signals whose time has come.

        Args:
            has_ended: Whether the job's first process has ended; its children get no grace period.

        Returns:
            Whether no process of the job is left, or no stop was requested.
        """
        if self.request is None:
            return True
        if not self._has_terminated:
            if not has_ended and now < self._terminate_at:
                return False
            self._terminate(now, has_ended=has_ended)
        if now >= self._kill_at:
            self._kill()
        return has_ended and not self._tree.rescan()

    def _terminate(self, now: float, *, has_ended: bool) -> None:
        self._has_terminated = True
        self._kill_at = now + KILL_AFTER_SECONDS
        processes = children_first(self._tree.rescan())
        if processes and not has_ended:
            self.has_used_force = True
            late = f"still running {duration(self._grace)} after the stop request: " if self._grace else ""
            self._warn(f"{late}sending SIGTERM to {_processes(len(processes))}")
        for process in reversed(processes):
            send(process.identity, signal.SIGTERM)

    def _kill(self) -> None:
        processes = children_first(self._tree.rescan())
        if processes and not self._has_reported_kill:
            self._has_reported_kill = True
            after = f"{duration(KILL_AFTER_SECONDS)} after SIGTERM"
            self._warn(f"{_processes(len(processes))} still running {after}: sending SIGKILL")
        for process in processes:
            send(process.identity, signal.SIGKILL)


def _processes(count: int) -> str:
    return counted(count, "process", "processes")


class RequestHandler:
    """Takes the control requests of a run and does the agent's part of them; the rest is the workers'.

    Args:
        can_notice_stop: Whether Leadline is loaded into the job, so that the job can stop by itself.
    """

    def __init__(
        self,
        documents: RunDocuments,
        manifest: ManifestDocument,
        gate: SignalGate,
        *,
        job: Job,
        workers: WorkerTracker,
        judge: JudgeSupervisor,
        monitor: Monitor,
        can_notice_stop: bool,
        terminal: Terminal,
    ) -> None:
        self.accepts_stop = True
        """Whether a stop request still makes sense; False once the job has ended."""
        self._documents = documents
        self._workers = workers
        self._judge = judge
        self._monitor = monitor
        self._can_notice_stop, self._terminal = can_notice_stop, terminal
        self._reported: set[str] = set()
        self._inbox = RequestReader(
            documents.run, lambda problem: self._warn_once(f"cannot read a request in {layout.CONTROL}: {problem}")
        )
        self._inbox.skip(read_incarnations(documents.run).requests)
        self.commands = Commands(documents.run, manifest, os.environ, gate, answer=self._answer_command)
        tree = job.new_tree()
        tree.foreign_sessions = gate.sessions
        self.stop = StopSequence(tree, terminal.warn)

    def poll(self, now: float) -> None:
        """Handle the requests that arrived."""
        for request in self._inbox.take():
            self._handle(request, now)

    def was_taken(self, request: Stop) -> bool:
        """Return whether a worker has accepted a stop; it may have ended by it since."""
        answers = read_acknowledgements(self._documents.run, {request.id}).get(request.id, ())
        return any(answer.answer.is_accepted for answer in answers)

    def _handle(self, request: ControlRequest, now: float) -> None:
        match request:
            case Stop() if self.stop.request is None and self.accepts_stop:
                self._begin_stop(request, now)
            case SetInterval():
                self._acknowledge(request, set_interval(self._monitor, request))
            case ExecuteCommand() if not self._documents.is_secondary:
                self.commands.take(request)

    def _begin_stop(self, request: Stop, now: float) -> None:
        self._workers.poll()
        may_stop = self._workers.may_train() or self.was_taken(request)
        if request.is_by_rule and not may_stop:
            # a finding at the very end: the script may be saving its model
            self._acknowledge(request, Answer("refused", TRAINING_ENDED))
            return
        if self._workers.end_own_loops():
            request = replace(request, let_script_finish=True)
        self.stop.begin(request, now, can_stop_itself=self._can_notice_stop and may_stop)
        self._documents.set_status(status="Stopping", stopped_by=request.by or "user")
        if not request.is_by_rule:
            self._terminal.message(f"stop requested by {request.by or 'user'}", "warning")

    def _acknowledge(self, request: ControlRequest, answer: Answer) -> None:
        problem = acknowledge(self._documents.run, request.id, f"{AGENT}{self._documents.node}", -1, answer)
        if problem:
            self._warn_once(f"cannot acknowledge request {request.id}: {problem}")

    def _answer_command(self, request: ExecuteCommand, answer: Answer) -> None:
        self._acknowledge(request, answer)
        if self._judge.is_over and not answer.is_accepted:
            self._terminal.message(f"run_command {answer}", "warning")  # otherwise the judge reports it

    def _warn_once(self, problem: str) -> None:
        if problem not in self._reported:
            self._reported.add(problem)
            self._terminal.message(problem, "warning")
