"""The end of a run: final status, exit status, the wait for judge and commands, the manifest and the summary."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from leadline.agent.components import AgentComponents
from leadline.agent.launch import runs_python
from leadline.agent.signals import TO_END
from leadline.agent.summary import JobEnd, summary_lines
from leadline.errors import STOPPED
from leadline.process.stall import StuckWatch
from leadline.records import describe
from leadline.records.documents import RuleSummary, WorkerDocument
from leadline.records.formatting import counted, listed
from leadline.records.outcome import run_outcome
from leadline.records.totals import beside_seconds, steps_behind
from leadline.store import layout
from leadline.store.control import read_actions
from leadline.store.documents import read_document
from leadline.store.run_state import read_nodes, recorded_bytes, recorded_end

_JUDGE_POLL_SECONDS: Final = 0.01
"""The poll interval while only the judge is awaited: the user waits for the prompt."""
_COMMAND_POLL_SECONDS: Final = 0.05
_STUCK_SECONDS: Final = 10.0
"""The judge is terminated when its summary did not change for so long, and it did nothing although it could."""
_SILENT_WAIT_SECONDS: Final = 2.0
"""How long the prompt is kept waiting without a message."""
_JUDGE_GRACE_SECONDS: Final = 2.0
_REMAINING_SECONDS: Final = 1.0
"""How long processes of the job may take to end after its command."""
_MAX_PIDS: Final = 3
_SURVIVED_STEPS: Final = 10
"""A job that took so many more steps after a signal to end has not been interrupted by it."""


@dataclass(slots=True)
class EndSignals:
    """The signals that asked the agent to end."""

    number: int | None = None
    """The last one that was sent to the agent alone."""
    was_interrupted: bool = False
    """Whether one arrived while the job ran, also from the terminal, which sends it to the job as well."""
    was_signaled: bool = False
    """Whether one was sent to the agent alone."""
    _at_ns: int = 0
    _steps: dict[str, int] = field(default_factory=dict)
    """The last step of each worker, as first reported after the last signal."""

    _are_ignored: bool = True

    def record(self, number: int, *, is_from_terminal: bool, is_ignored: bool = False) -> None:
        """Record a signal.

        Args:
            is_ignored: Whether the job ignores it.
        """
        self.was_interrupted = True
        self._are_ignored = self._are_ignored and is_ignored
        self._at_ns = time.time_ns()
        self._steps.clear()
        if not is_from_terminal:
            self.was_signaled, self.number = True, number

    def follow(self, workers: Mapping[str, WorkerDocument]) -> None:
        """Note at which step the training was when it received the last signal."""
        if self.was_interrupted:
            since = {name: worker.step for name, worker in workers.items() if worker.time_ns > self._at_ns}
            self._steps = since | self._steps

    def were_survived(self, workers: Mapping[str, WorkerDocument], code: int | None) -> bool:
        """Return whether the job trained on after all signals; one that ends takes a few steps more at most.

        Args:
            code: Its exit code, -n for signal n; one that was killed by a signal has not survived.
        """
        if code is None or code < 0:
            return False
        if self.was_interrupted and self._are_ignored:
            return True
        after = [workers[name].step - step for name, step in self._steps.items() if name in workers]
        return max(after, default=0) >= _SURVIVED_STEPS


class Shutdown:
    """Closes a run after its job has ended.

    Args:
        follow_horovod: Copies what Horovod has written.
    """

    def __init__(self, parts: AgentComponents, follow_horovod: Callable[[], None]) -> None:
        self._parts, self._follow_horovod = parts, follow_horovod
        self._is_hurried = False
        """Whether the user does not want to wait any longer."""
        self._has_announced_wait = self._has_announced_lag = False

    def run(self, signals: EndSignals, *, started: float) -> int:
        """Write the final status, wait for judge and commands, and print the summary.

        Args:
            started: When the agent started, by its clock.
        Returns:
            The status to exit with.
        """
        parts = self._parts
        ended = parts.clock()
        parts.requests.accepts_stop = False
        parts.monitor.stop()
        parts.workers.poll()
        left = self._remaining_workers(signals)
        if left:
            return self._leave(left)
        self._follow_horovod()
        if not parts.messages.has_hinted:
            parts.messages.hint()
        status, final = self._write_status(signals)
        if not parts.documents.is_secondary:
            self._await_judge()
            self._await_commands()
            self._complete_manifest()
            self._print_summary(status, final, ended - started)
            parts.compaction.finish()
            parts.removal.finish()
            parts.report.start()
        elif parts.job.is_ours:
            node, primary = parts.documents.node, parts.election.primary
            place = "other nodes" if primary == node else primary
            parts.terminal.message(f"the command has ended with exit {final} on {node}; the run continues on {place}")
        parts.write_node(has_ended=True, exit_status=None if parts.job.exit_status is None else final)
        parts.documents.close()
        self.terminate_judge()  # what it had to write is written by now, or never will be
        if not parts.documents.is_secondary or parts.upload.is_joint:
            parts.upload.finish()
        return final

    def _remaining_workers(self, signals: EndSignals) -> list[int]:
        """Return the processes of the job that train on after its command has ended, as those of a daemon do.

        Before the first worker has reported, these are all its Python processes: they may be about to train.
        """
        parts = self._parts
        is_ended_by_request = signals.was_interrupted or parts.requests.stop.request is not None
        has_ended = parts.job.is_ours and parts.job.exit_status is not None
        if not has_ended or is_ended_by_request or parts.why_not_monitored is not None:
            return []
        tree = parts.job.new_tree()
        tree.foreign_sessions = parts.gate.sessions
        end = parts.clock() + _REMAINING_SECONDS
        while True:
            parts.gate.reap()
            parts.workers.poll()
            python_processes = [process.pid for process in tree.rescan() if runs_python(process.pid)]
            left = parts.workers.running_here() if parts.workers.documents else python_processes
            if not left or parts.clock() >= end:
                return left
            time.sleep(_COMMAND_POLL_SECONDS)

    def _leave(self, pids: list[int]) -> int:
        """Leave the run to its workers, which record its end, and to the judge, which follows them."""
        parts, code = self._parts, self._parts.job.exit_status
        final = end_of_job(code, was_stopped=False, was_signaled=False, was_interrupted=False, recorded=None)[1]
        parts.documents.set_status(job_pid=pids[0])
        parts.write_node()
        parts.judge.detach()
        processes = counted(len(pids), "process", "processes")
        parts.terminal.message(
            f"the command has ended with exit {final}, but {processes} of it may still train "
            f"(pid {listed([str(pid) for pid in pids[:_MAX_PIDS]])}): captured and judged in the background",
            "warning",
        )
        parts.documents.close()
        return final

    def _write_status(self, signals: EndSignals) -> tuple[str, int]:
        parts, code = self._parts, self._parts.job.exit_status
        recorded = recorded_end(parts.documents.run, parts.workers.documents, parts.job.pid)
        code = recorded.exit_status if code is None else code
        stop = parts.requests.stop.request
        has_survived = signals.were_survived(parts.workers.documents, code)
        status, final = end_of_job(
            code,
            was_stopped=self._was_stopped(code),
            was_signaled=signals.was_signaled and not has_survived,
            was_interrupted=signals.was_interrupted and not has_survived,
            recorded=recorded.status,
            may_finish=stop is not None and stop.let_script_finish,
        )
        if parts.documents.has_unwritten or parts.monitor.dropped() or parts.workers.dropped_data():
            parts.documents.give_up_reserve()
        parts.write_node()
        exit_status = final if code is not None or status == "Stopped" else None
        elsewhere = [node.exit_status for node in parts.election.others.documents.values() if node.exit_status]
        if status == "Completed" and elsewhere:
            status, exit_status = "Failed", elsewhere[0]
        parts.documents.set_status(
            status=status,
            exit_status=exit_status,
            stopped_by=parts.documents.status.stopped_by if status == "Stopped" else None,
            ended_ns=time.time_ns(),
            error=self._early_error() if status == "Failed" else "",
        )
        return status, final

    def _early_error(self) -> str:
        """Return the exception that ended a job before its first step; empty: none is known."""
        if any(worker.steps for worker in self._parts.workers.documents.values()):
            return ""
        document = read_document(os.path.join(self._parts.documents.run, layout.UNCAUGHT))
        return str(document.get("error", "")) if isinstance(document, dict) else ""

    def _was_stopped(self, code: int | None) -> bool:
        stop = self._parts.requests.stop
        if stop.request is None:
            return False
        return self._parts.requests.was_taken(stop.request) or code == STOPPED or stop.has_used_force

    def _await_judge(self) -> None:
        """Wait until the judge has evaluated everything, as long as it makes progress."""
        parts, judge = self._parts, self._parts.judge
        if not judge.is_needed:
            return
        began, stuck = parts.clock(), StuckWatch(_STUCK_SECONDS)
        while not judge.has_completed() and not judge.is_over:
            info = parts.gate.wait(_JUDGE_POLL_SECONDS)
            if info is not None and info.si_signo in TO_END:
                self._is_hurried = True
                self.terminate_judge()
                break
            parts.gate.reap()
            now = parts.clock()
            parts.requests.poll(now)
            if now - began > _SILENT_WAIT_SECONDS:
                self._announce_wait()
            parts.requests.commands.advance(now)
            if stuck.look(judge.pid, now, has_progress=judge.read_summary()):
                parts.terminal.message("rule evaluation is stuck; terminating it", "warning")
                break
            judge.poll(now, is_urgent=True)
        if not judge.has_completed():
            self.terminate_judge()
            parts.documents.stop_rules()
        judge.read_summary()

    def _announce_wait(self) -> None:
        """Show once how far the judge is behind, and for which deliveries the prompt is kept waiting."""
        judge, terminal = self._parts.judge, self._parts.terminal
        behind = steps_behind(judge.summary or RuleSummary(), self._parts.workers.documents.values())
        if behind and not self._has_announced_lag:
            self._has_announced_lag = True
            steps = counted(behind, "step")
            terminal.message(f"waiting for the judge, which is {steps} behind; Ctrl-C keeps what it has judged")
        pending = judge.pending_deliveries()
        if pending and not self._has_announced_wait:
            self._has_announced_wait = True
            terminal.message(f"waiting for {listed(pending)} (max 30 s); Ctrl-C skips")

    def _await_commands(self) -> None:
        """Wait until requested commands have ended, each within its timeout; Ctrl-C terminates them."""
        parts, commands = self._parts, self._parts.requests.commands
        parts.requests.poll(parts.clock())
        if not commands.is_idle and not self._is_hurried:
            parts.terminal.message("waiting for run_command (until its timeout); Ctrl-C terminates it")
        while not commands.is_idle:
            info = parts.gate.wait(_COMMAND_POLL_SECONDS)
            self._is_hurried = self._is_hurried or (info is not None and info.si_signo in TO_END)
            parts.gate.reap()
            now = parts.clock()
            if self._is_hurried:
                commands.end(now)
            commands.advance(now)
        commands.close()

    def terminate_judge(self) -> None:
        """Terminate the judge, by force if it does not exit."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            self._parts.judge.terminate(number, _JUDGE_GRACE_SECONDS)

    def _complete_manifest(self) -> None:
        """Add to the manifest what became known of workers, nodes and dropped data."""
        parts = self._parts
        node = parts.node_document()
        dropped = [{"worker": worker, **lost.fields()} for worker, lost in parts.workers.dropped_data().items()]
        dropped += [{"node": node.node, **node.lost.fields()}] if node.lost is not None else []
        others = [other for other in read_nodes(parts.documents.run) if other.node != node.node]
        workers = [parts.workers.documents[worker] for worker in sorted(parts.workers.documents)]
        parts.documents.fold_manifest(workers=workers, nodes=[node, *others], lost=dropped)

    def _print_summary(self, status: str, final: int, seconds: float) -> None:
        parts = self._parts
        if not os.path.isdir(parts.documents.run):
            parts.terminal.message(f"{status.lower()}; the run directory was removed: nothing of this run is left")
            return
        dropped = [f"{worker}: {describe.dropped_data(lost)}" for worker, lost in parts.workers.dropped_data().items()]
        dropped_samples = parts.monitor.dropped()
        dropped += [describe.dropped_samples(dropped_samples)] if dropped_samples is not None else []
        workers, summary = tuple(parts.workers.documents.values()), parts.judge.summary
        others = [node for node in read_nodes(parts.documents.run) if node.node != parts.documents.node]
        nodes = [parts.node_document(has_ended=True), *others]
        end = JobEnd(
            outcome=run_outcome(parts.documents.status, summary or RuleSummary(), workers),
            status=status,
            exit_status=parts.job.exit_status,
            final_status=final,
            seconds=seconds,
            workers=workers,
            run_bytes=recorded_bytes(parts.documents.run),
            summary=summary,
            has_rules=parts.judge.is_needed and bool(parts.manifest.rules),
            actions=tuple(read_actions(parts.documents.run)) if parts.manifest.actions else (),
            dropped=tuple(dropped),
            why_not_monitored=parts.why_not_monitored,
            report=parts.report.plan(seconds, workers),
            beside_seconds=beside_seconds(nodes, summary or RuleSummary()),
        )
        parts.terminal.write(summary_lines(end, width=parts.terminal.width))


def end_of_job(
    code: int | None,
    *,
    was_stopped: bool,
    was_signaled: bool,
    was_interrupted: bool,
    recorded: str | None,
    may_finish: bool = False,
) -> tuple[str, int]:
    """Return the final status of the run, and the status to exit with.

    Args:
        code: The exit code of the command, -n for signal n; None: unknown.
        was_stopped: Whether a stop request was taken, or enforced.
        was_signaled: Whether the agent itself was sent a signal to end.
        was_interrupted: Whether any signal to end arrived, also from the terminal; the job may have ignored it.
        may_finish: Whether the stop request let the script finish: the exit status is that of the script.
        recorded: The status that the workers recorded, for a job without an exit code; None: some recorded no end.
    """
    final = 0 if code is None else (128 - code if code < 0 else code)
    if was_stopped:
        return "Stopped", final if may_finish and code is not None else STOPPED
    if code in (128 + signal.SIGINT, -signal.SIGINT) or was_signaled:
        return "Interrupted", final
    if code is None:
        return recorded or "Failed", final
    if code == 0:
        return "Completed", final
    return ("Interrupted" if was_interrupted else "Failed"), final
