"""The components of an agent, and how they are connected."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace

from leadline.agent.compaction_process import Compaction
from leadline.agent.election import Election
from leadline.agent.horovod import HorovodTimelines
from leadline.agent.job import Job
from leadline.agent.judge_supervisor import JudgeSupervisor
from leadline.agent.raw_tensor_removal import RawTensorRemoval
from leadline.agent.report_process import FinalReport
from leadline.agent.request_handler import RequestHandler
from leadline.agent.run_documents import RunDocuments
from leadline.agent.signals import SignalGate
from leadline.agent.started_manifest import StartedManifest
from leadline.agent.terminal import StartMessages, Terminal
from leadline.agent.upload_process import UploadProcess
from leadline.agent.worker_tracker import WorkerTracker
from leadline.monitor.machine import machine_samplers
from leadline.monitor.monitor import Monitor
from leadline.records.documents import NodeDocument
from leadline.store.incarnations import read_incarnations


class AgentComponents:
    """Everything that the main loop and the shutdown of an agent work with, connected; nothing is started.

    Args:
        documents: The documents of the run that the agent writes.
        election: Which agent of the run is the primary one.
        judge: The command that starts the judge; None: the judge is not installed.
        manifest: The manifest of the run.
        why_not_monitored: Why Leadline cannot be loaded into the job; None: it can.
    """

    def __init__(
        self,
        documents: RunDocuments,
        job: Job,
        gate: SignalGate,
        election: Election,
        *,
        judge: list[str] | None,
        manifest: StartedManifest,
        why_not_monitored: str | None = None,
        terminal: Terminal | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        terminal = terminal or Terminal()
        self.documents = documents
        self.job = job
        self.gate = gate
        self.terminal = terminal
        self.clock = clock
        self.why_not_monitored = why_not_monitored
        self.election = election
        self._incarnations = read_incarnations(documents.run)
        self.manifest, self.left_out = manifest.document, manifest.left_out
        self.messages = StartMessages(terminal, documents, self.manifest, why_not_monitored=why_not_monitored)
        self.workers = WorkerTracker(
            documents.run, documents.node, election.others, self.messages, terminal, clock=clock
        )
        self.judge = JudgeSupervisor(documents, self.manifest, judge, gate, terminal=terminal, clock=clock)
        monitored = job.new_tree()
        monitored.foreign_sessions = gate.sessions
        self.monitor = Monitor(
            documents.run,
            documents.node,
            lambda: machine_samplers(documents.run, monitored),
            interval_seconds=self.manifest.interval_ms / 1000,
            first_sequence=self._incarnations.samples.get(documents.node, 0),
        )
        self.requests = RequestHandler(
            documents,
            self.manifest,
            gate,
            job=job,
            workers=self.workers,
            judge=self.judge,
            monitor=self.monitor,
            can_notice_stop=why_not_monitored is None,
            terminal=terminal,
        )
        run, choice = documents.run, self.manifest.settings.get("report")
        self.compaction = Compaction(run, os.environ, gate, warn=terminal.warn)
        self.upload = UploadProcess(run, os.environ, gate, warn=terminal.warn, clock=clock)
        self.report = FinalReport(run, os.environ, gate, warn=terminal.warn, choice=choice)
        self.removal = RawTensorRemoval(run, warn=terminal.warn)
        self.horovod = HorovodTimelines(documents.run, documents.node, documents.started_ns)

    def write_node(self, *, exit_status: int | None = None, has_ended: bool = False) -> None:
        """Write the document of this node, if it changed."""
        state = "ended" if has_ended else "running"
        document = self.node_document(has_ended=has_ended)
        self.documents.set_node(replace(document, state=state, exit_status=exit_status))

    def node_document(self, *, has_ended: bool = False) -> NodeDocument:
        """Return what is known of this node."""
        return NodeDocument(
            node=self.documents.node,
            agent_pid=os.getpid(),
            started_ns=self.documents.started_ns,
            cpu_count=len(os.sched_getaffinity(0)),
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            gpus=tuple(self.monitor.gpus()),
            absent=self.monitor.absent(),
            lost=self.monitor.dropped(),
            gone=tuple(sorted(self.workers.gone)),
            incarnation=self._incarnations.job,
            processor_seconds=time.process_time() if has_ended else None,
        )
