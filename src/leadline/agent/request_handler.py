"""Handling of the control requests that are addressed to the agent: stop, set and run_command."""

from __future__ import annotations

import os

from leadline.agent.commands import Commands
from leadline.agent.job import Job
from leadline.agent.judge_supervisor import JudgeSupervisor
from leadline.agent.run_documents import RunDocuments
from leadline.agent.signals import SignalGate
from leadline.agent.stop_sequence import StopSequence
from leadline.agent.terminal import Terminal
from leadline.agent.worker_tracker import WorkerTracker
from leadline.monitor.monitor import Monitor, set_interval
from leadline.records.describe import AGENT
from leadline.records.documents import ManifestDocument
from leadline.records.request import TRAINING_ENDED, Answer, ControlRequest, ExecuteCommand, SetInterval, Stop
from leadline.store import layout
from leadline.store.control import RequestReader, acknowledge


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
        self._documents, self._workers, self._judge, self._monitor = documents, workers, judge, monitor
        self._can_notice_stop, self._terminal = can_notice_stop, terminal
        self._reported: set[str] = set()
        self._inbox = RequestReader(
            documents.run, lambda problem: self._warn_once(f"cannot read a request in {layout.CONTROL}: {problem}")
        )
        self.commands = Commands(documents.run, manifest, os.environ, gate, answer=self._answer_command)
        tree = job.new_tree()
        tree.foreign_sessions = gate.sessions
        self.stop = StopSequence(tree, lambda text: terminal.message(text, "warning"))

    def poll(self, now: float) -> None:
        """Handle the requests that arrived."""
        for request in self._inbox.take():
            self._handle(request, now)

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
        if request.is_by_rule and not self._workers.may_train():
            # a finding at the very end: the script may be saving its model
            self._acknowledge(request, Answer("refused", TRAINING_ENDED))
            return
        can_stop_itself = self._can_notice_stop and self._workers.may_train()
        self.stop.begin(request, now, can_stop_itself=can_stop_itself)
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
