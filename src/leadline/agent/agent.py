"""The agent's main loop: one thread that waits for signals and polls the run between them."""

from __future__ import annotations

import os
import signal
from typing import Final

from leadline.agent.components import AgentComponents
from leadline.agent.group_witness import GroupWitness
from leadline.agent.shutdown import EndSignals, Shutdown
from leadline.agent.signals import TO_END, TO_PASS_ON, came_from_terminal, notify_of_new_files
from leadline.records.formatting import listed
from leadline.records.names import JOB_ENDED
from leadline.store import layout
from leadline.store.documents import make_folder
from leadline.store.node_lock import SIGN_SECONDS
from leadline.store.run_state import read_status

_FAST_POLL_SECONDS: Final = 0.05
"""The poll interval while a stop is in progress, and where the kernel does not report new requests."""
_POLL_SECONDS: Final = 0.5
"""The poll interval otherwise: waking up is most of what the agent costs."""
_ATTACHED_POLL_SECONDS: Final = 0.2
"""The poll interval of an attached job, whose end no signal reports."""
_HAND_OVER_SECONDS: Final = 10.0
"""How long an agent that was asked to end waits for the other nodes, which may have been asked, too."""
_NOTIFYING_FOLDERS: Final = (layout.CONTROL, layout.WORKERS)
_HINT_AFTER_SECONDS: Final = 20.0


class Agent:
    """Runs one job on one node, from before its start to the summary."""

    def __init__(self, parts: AgentComponents) -> None:
        self._parts = parts
        self._documents = parts.documents
        self._job = parts.job
        self._gate = parts.gate
        self._clock = parts.clock
        self._election = parts.election
        self._started = self._clock()
        self._end_signals, self._witness = EndSignals(), GroupWitness(self._gate)
        self._poll_at = self._sign_at = 0.0
        self._ended_at: float | None = None
        self._has_announced_wait = self._has_left = False
        self._is_notified = False
        self._is_run_removed = False

    def run(self) -> int:
        """Start the job, watch it until it ends, and report how it ended.

        Returns:
            The status to exit with.
        Raises:
            OSError: The command cannot be started.
        """
        parts = self._parts
        for folder in layout.FOLDERS:
            make_folder(self._documents.path(folder))
        self._documents.set_status(agent_pid=os.getpid(), node=self._documents.node)
        self._documents.heartbeat()
        parts.write_node()
        parts.messages.announce_run()
        if parts.left_out:
            parts.terminal.message(
                f"left out, as this run was not started by you on this machine: {', '.join(parts.left_out)}; "
                "if you trust it, resume it with --trust-run",
                "warning",
            )
        if parts.judge.is_needed:
            parts.judge.start()
        if self._drain_signals():
            self._job.has_ended = True
            self._job.exit_status = -(self._end_signals.number or signal.SIGINT)
        else:
            self._job.start()
            if self._job.is_ours:
                self._witness.start()
            self._documents.set_status(status="InProgress", job_pid=self._job.pid, exit_status=None, ended_ns=None)
            parts.monitor.start()
            self._is_notified = notify_of_new_files(self._documents.path(folder) for folder in _NOTIFYING_FOLDERS)
            self._watch()
            self._witness.stop()
        return Shutdown(parts, self._follow_horovod).run(self._end_signals, started=self._started)

    def abandon(self) -> None:
        """Give up before the job was started."""
        Shutdown(self._parts, self._follow_horovod).terminate_judge()
        self._documents.abandon()

    def _drain_signals(self) -> bool:
        """Take the signals that arrived before the start; return whether one of them asked to end."""
        while (info := self._gate.wait(0)) is not None:
            if info.si_signo in TO_END:
                self._end_signals.record(info.si_signo, is_from_terminal=False)
        return self._end_signals.was_signaled

    def _watch(self) -> None:
        """Poll until the job has ended, or an attached job needs the agent no more."""
        parts = self._parts
        while True:
            info = self._gate.wait(self._poll_seconds())
            if info is not None and info.si_signo in TO_PASS_ON:
                self._on_signal(info)
            self._gate.reap()
            self._job.poll()
            now = self._clock()
            parts.judge.poll(now)
            parts.requests.poll(now)
            parts.requests.commands.advance(now)
            if now >= self._poll_at:
                self._poll(now)
            elif info is not None and not parts.messages.has_announced:
                parts.workers.poll()
            has_stopped = parts.requests.stop.advance(now, has_ended=self._job.has_ended)
            if self._job.has_ended and has_stopped and not self._must_await_other_nodes(now):
                return
            if not self._job.is_ours and self._is_attachment_over(now) and self._job.leave():
                return

    def _poll_seconds(self) -> float:
        if self._parts.requests.stop.request is not None or not self._is_notified:
            return _FAST_POLL_SECONDS
        return _POLL_SECONDS if self._job.is_ours else _ATTACHED_POLL_SECONDS

    def _on_signal(self, info: signal.struct_siginfo) -> None:
        number, is_from_terminal = info.si_signo, came_from_terminal(info)
        if number in TO_END:
            is_ignored = self._job.ignores(number)
            self._end_signals.record(number, is_from_terminal=is_from_terminal, is_ignored=is_ignored)
        if not is_from_terminal and (not self._witness.has_seen(number, info.si_pid) or self._job.is_in_own_group()):
            self._job.pass_on(number)
        elif is_from_terminal and number != signal.SIGWINCH:  # a window that is being resized sends very many
            self._witness.refresh(number)

    def _is_attachment_over(self, now: float) -> bool:
        """Return whether an attached job that is still running needs no agent any more."""
        if self._end_signals.was_signaled and self._end_signals.number == signal.SIGTERM:
            return True
        if self._job.has_ended:
            return False
        return self._parts.workers.have_ended(self._job.pids) and not self._must_await_other_nodes(now)

    def _must_await_other_nodes(self, now: float) -> bool:
        """Return whether this agent must wait for the other nodes of the run, now that its own job has ended.

        The primary agent waits until they have ended, to close the run; a secondary one until it knows that the primary
        one is alive.
        """
        parts, election = self._parts, self._election
        if self._ended_at is None:
            election.others.poll(now)  # earlier signs of life do not count
            self._ended_at = now
        parts.workers.poll()
        if self._documents.is_secondary:
            self._sign_at = now
            is_closed = read_status(self._documents.run).status in JOB_ENDED
            is_led = election.others.has_heartbeat_since(election.primary, self._ended_at)
            return not (is_closed or is_led or self._has_left)
        running = election.others.running(now)
        if not running and not parts.workers.are_running_elsewhere():
            return False
        if self._end_signals.was_interrupted and now - self._ended_at > _HAND_OVER_SECONDS:
            self._leave_run()
            return False
        if not self._has_announced_wait and self._job.is_ours:
            self._has_announced_wait = True
            parts.terminal.message(f"waiting for the end of the run on {listed(running) or 'other nodes'}")
        return True

    def _poll(self, now: float) -> None:
        parts = self._parts
        self._poll_at = now + _POLL_SECONDS
        self._check_for_removal()
        if now >= self._sign_at and not self._is_run_removed:
            self._sign_at = now + SIGN_SECONDS
            self._documents.heartbeat()
            self._follow_election()
        elif self._election.is_proposing:
            self._follow_election()
        if parts.judge.is_needed:
            parts.judge.read_summary()
        parts.workers.poll()
        self._end_signals.follow(parts.workers.documents)
        self._witness.refresh()
        self._follow_horovod()
        parts.write_node()
        self._documents.retry()
        if not self._is_run_removed:
            if not self._documents.is_secondary or parts.upload.is_joint:
                parts.upload.poll(now)
            if not self._documents.is_secondary:
                parts.compaction.poll(now)
                parts.removal.poll(now)
        for warning in parts.monitor.take_warnings():
            parts.terminal.message(warning, "warning")
        if not parts.messages.has_hinted and now - self._started > _HINT_AFTER_SECONDS:
            parts.messages.hint()

    def _follow_election(self) -> None:
        documents, election = self._documents, self._election
        is_open = not self._job.has_ended or read_status(documents.run).status not in JOB_ENDED
        election.poll(may_begin=is_open)
        if election.is_primary and documents.is_secondary:
            self._become_primary()
        elif not election.is_primary and not documents.is_secondary:
            self._parts.terminal.message(
                f"the agent of {election.primary} has taken over the run: it had no sign of life from this node",
                "warning",
            )
            self._follow()

    def _become_primary(self) -> None:
        """Continue for the primary agent, which has ended or is silent."""
        self._documents.lead()
        stop = self._parts.requests.stop.request
        self._documents.set_status(
            agent_pid=os.getpid(),
            node=self._documents.node,
            status="InProgress" if stop is None else "Stopping",
            job_pid=self._job.pid,
        )
        self._parts.judge.enable()

    def _follow(self) -> None:
        """Leave status and judge to the agent of another node."""
        self._documents.follow()
        self._parts.judge.disable()
        Shutdown(self._parts, self._follow_horovod).terminate_judge()

    def _leave_run(self) -> None:
        """Leave the run to the agents of other nodes, which still run."""
        self._election.resign()
        self._follow()
        self._has_left = True

    def _check_for_removal(self) -> None:
        if self._is_run_removed or os.path.isdir(self._documents.run):
            return
        self._is_run_removed = True
        self._parts.judge.disable()
        self._parts.terminal.message(
            "the run directory was removed: captured data is lost; training continues", "warning"
        )

    def _follow_horovod(self) -> None:
        if not self._is_run_removed:
            for line in self._parts.horovod.poll(self._parts.workers.documents):
                self._parts.terminal.message(line, "warning")
