"""Handling of the control requests that are addressed to the agent: stop, set and run_command."""

from __future__ import annotations

import os
import time

from leadline.agent.commands import Commands
from leadline.agent.job import Job
from leadline.agent.judge_supervisor import JudgeSupervisor
from leadline.agent.progress import Document
from leadline.agent.run_documents import RunDocuments
from leadline.agent.signals import SignalGate
from leadline.agent.stop_sequence import StopSequence
from leadline.agent.terminal import Terminal
from leadline.agent.worker_tracker import WorkerTracker
from leadline.monitor.monitor import Monitor, set_interval
from leadline.records.request import FAILED, REFUSED, TRAINING_ENDED, Acknowledgement, Request
from leadline.store import layout
from leadline.store.control import RequestReader, write_acknowledgement


class RequestHandler:
    """Takes the control requests of a run and does the agent's part of them; the rest is the workers'.

    Args:
        can_notice_stop: Whether Leadline is loaded into the job, so that the job can stop by itself.
    """

    def __init__(
        self,
        documents: RunDocuments,
        manifest: Document,
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

    def _handle(self, request: Request, now: float) -> None:
        match request.kind:
            case "stop" if self.stop.request is None and self.accepts_stop:
                self._begin_stop(request, now)
            case "set":
                self._acknowledge(request, set_interval(self._monitor, request))
            case "run_command" if not self._documents.is_secondary:
                self.commands.take(request)

    def _begin_stop(self, request: Request, now: float) -> None:
        self._workers.poll()
        if request.by.startswith("rule:") and not self._workers.may_train():
            # a finding at the very end: the script may be saving its model
            self._acknowledge(request, f"{REFUSED}{TRAINING_ENDED}")
            return
        can_stop_itself = self._can_notice_stop and self._workers.may_train()
        self.stop.begin(request, now, can_stop_itself=can_stop_itself)
        self._documents.set_status(status="Stopping", stopped_by=request.by or "user")
        if not request.by.startswith("rule:"):
            self._terminal.message(f"stop requested by {request.by or 'user'}", "warning")

    def _acknowledge(self, request: Request, outcome: str) -> None:
        worker = f"agent-{self._documents.node}"
        acknowledgement = Acknowledgement(request.id, worker, -1, time.time_ns(), outcome)
        try:
            write_acknowledgement(self._documents.run, acknowledgement)
        except OSError as error:
            self._warn_once(f"cannot acknowledge request {request.id}: {error.strerror}")

    def _answer_command(self, request: Request, outcome: str) -> None:
        self._acknowledge(request, outcome)
        if self._judge.is_over and outcome.startswith((FAILED, REFUSED)):
            self._terminal.message(f"run_command {outcome}", "warning")  # otherwise the judge reports it

    def _warn_once(self, problem: str) -> None:
        if problem not in self._reported:
            self._reported.add(problem)
            self._terminal.message(problem, "warning")
