"""The components of an agent, and how they are connected."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from leadline.agent.compaction_process import Compaction
from leadline.agent.horovod import HorovodTimelines
from leadline.agent.job import Job
from leadline.agent.judge_supervisor import JudgeSupervisor
from leadline.agent.request_handler import RequestHandler
from leadline.agent.run_documents import RunDocuments
from leadline.agent.signals import SignalGate
from leadline.agent.start_messages import StartMessages
from leadline.agent.terminal import Terminal
from leadline.agent.worker_tracker import WorkerTracker
from leadline.monitor.machine import machine_samplers
from leadline.monitor.monitor import Monitor
from leadline.records.documents import ManifestDocument, NodeDocument
from leadline.store.run_state import read_manifest_document


@dataclass(frozen=True, slots=True)
class AgentComponents:
    """Everything that the main loop and the shutdown of an agent work with."""

    documents: RunDocuments
    job: Job
    gate: SignalGate
    terminal: Terminal
    clock: Callable[[], float]
    manifest: ManifestDocument
    unwatched: str | None
    """Why Leadline could not be loaded into the job; None: it could."""
    messages: StartMessages
    workers: WorkerTracker
    judge: JudgeSupervisor
    requests: RequestHandler
    monitor: Monitor
    compaction: Compaction
    horovod: HorovodTimelines

    def write_node(self) -> None:
        """Write the document of this node, if it changed."""
        self.documents.set_node(self.node_document())

    def node_document(self) -> NodeDocument:
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
        )


def build_components(
    documents: RunDocuments,
    job: Job,
    gate: SignalGate,
    *,
    judge: list[str] | None,
    unwatched: str | None,
    terminal: Terminal,
    clock: Callable[[], float],
) -> AgentComponents:
    """Construct and connect the components of an agent; nothing is started."""

    def warn(text: str) -> None:
        terminal.message(text, "warning")

    manifest = read_manifest_document(documents.run) or ManifestDocument()
    messages = StartMessages(terminal, documents, manifest, unwatched=unwatched)
    workers = WorkerTracker(documents.run, documents.node, messages, terminal, clock=clock)
    supervisor = JudgeSupervisor(documents, manifest, judge, gate, terminal=terminal, clock=clock)
    monitored = job.new_tree()
    monitored.foreign_sessions = gate.sessions
    monitor = Monitor(
        documents.run,
        documents.node,
        lambda: machine_samplers(documents.run, monitored),
        interval_seconds=manifest.interval_ms / 1000,
    )
    requests = RequestHandler(
        documents,
        manifest,
        gate,
        job=job,
        workers=workers,
        judge=supervisor,
        monitor=monitor,
        can_notice_stop=unwatched is None,
        terminal=terminal,
    )
    return AgentComponents(
        documents=documents,
        job=job,
        gate=gate,
        terminal=terminal,
        clock=clock,
        manifest=manifest,
        unwatched=unwatched,
        messages=messages,
        workers=workers,
        judge=supervisor,
        requests=requests,
        monitor=monitor,
        compaction=Compaction(documents.run, os.environ, gate, warn=warn),
        horovod=HorovodTimelines(documents.run, documents.node, documents.started_ns),
    )
