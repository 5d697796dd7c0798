"""The agent's main loop: one thread that waits for signals and looks at the run between them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any, Final

from leadline.agent.commands import Commands
from leadline.agent.compaction_process import Compaction
from leadline.agent.control_inbox import ControlInbox
from leadline.agent.exit_status import STOPPED, end_of_job, folder_bytes
from leadline.agent.horovod import HorovodTimelines
from leadline.agent.job import Job, reap
from leadline.agent.judge_process import JudgeProcess
from leadline.agent.progress import (
    Document,
    Follower,
    Workers,
    describe_announcement,
    describe_lost,
    describe_off,
    describe_worker,
    read_patiently,
)
from leadline.agent.run_documents import RunDocuments
from leadline.agent.signals import TO_END, TO_PASS_ON, SignalGate, came_from_terminal, notify_of_new_files
from leadline.agent.stop_sequence import StopSequence
from leadline.agent.summary import RunOutcome, summary_lines
from leadline.agent.terminal import Terminal
from leadline.monitor.machine import machine_samplers
from leadline.monitor.monitor import Monitor, set_interval
from leadline.monitor.processes import identify
from leadline.records.formatting import counted, listed, place
from leadline.records.request import ENDED, FAILED, REFUSED, Acknowledgement, Request
from leadline.store import layout
from leadline.store.actions import read_actions
from leadline.store.control import read_acknowledgements, write_acknowledgement
from leadline.store.documents import make_folder, read_document

_EAGER_SECONDS: Final = 0.05
"""The poll while something is under way, and where the kernel does not tell of requests."""
_ENDING_SECONDS: Final = 0.01
"""The poll while only the judge is awaited: somebody waits for the prompt."""
_CALM_SECONDS: Final = 0.5
"""The poll otherwise: to wake up is most of what the agent costs."""
_ATTACHED_SECONDS: Final = 0.2
"""The same where no signal tells that the job has ended."""
_TELLING_FOLDERS: Final = (layout.CONTROL, layout.WORKERS)
_SILENT_SECONDS: Final = 60.0
"""A worker of another node that said nothing for so long is no reason to go on."""
_HINT_AFTER_SECONDS: Final = 20.0
_JUDGE_PATIENCE_SECONDS: Final = 10.0
_WAIT_SECONDS: Final = 2.0
"""Of waiting at the end before it is said for what."""
_JUDGE_FAREWELL_SECONDS: Final = 2.0
_MOST_ANNOUNCED: Final = 20


class Agent:
    """Owns one job on one node, from before its start to the verdict."""

    def __init__(
        self,
        logbook: RunDocuments,
        job: Job,
        gate: SignalGate,
        *,
        judge: list[str] | None,
        unwatched: str | None = None,
        terminal: Terminal | None = None,
        take_over: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            take_over: Where the logbook is secondary: whether the run has no other agent any more that is not.
        """
        self._take_over = take_over
        self._log, self._job, self._gate, self._clock = logbook, job, gate, clock
        self._terminal = terminal or Terminal()
        self._unwatched = unwatched
        self._started = clock()
        manifest = read_document(logbook.path(layout.MANIFEST))
        self._manifest: Document = manifest if isinstance(manifest, dict) else {}
        self._workers = Workers(logbook.run)
        self._summary: Document | None = None
        self._summary_file = Follower(logbook.path(layout.RULE_SUMMARY))
        self._inbox = ControlInbox(logbook.run, self._tell_unreadable, clock=clock)
        self._has_judge = self._needs_judge() and not logbook.is_secondary
        self._judge = JudgeProcess(
            judge,
            os.environ,
            gate,
            tell=lambda text: self._terminal.say(text, "warning"),
            has_completed=self._has_judged_all,
        )
        self._commands = Commands(
            logbook.run, self._manifest, os.environ, gate, sessions=self._judge.sessions, answer=self._answer_command
        )
        tree = job.new_tree()
        tree.foreign_sessions = self._judge.sessions
        self._stopping = StopSequence(tree, lambda text: self._terminal.say(text, "warning"))
        monitored = job.new_tree()
        monitored.foreign_sessions = self._judge.sessions
        self._monitor = Monitor(
            logbook.run,
            logbook.node,
            lambda: machine_samplers(logbook.run, monitored),
            interval_seconds=int(self._manifest.get("interval_ms") or 500) / 1000,
        )
        self._compaction = Compaction(
            logbook.run,
            os.environ,
            gate,
            sessions=self._judge.sessions,
            tell=lambda text: self._terminal.say(text, "warning"),
        )
        self._horovod = HorovodTimelines(logbook.run, logbook.node, logbook.started_ns)
        self._gone: set[str] = set()
        self._heard_of: dict[str, float] = {}
        self._told: set[tuple[str, str]] = set()
        self._unreadable: set[str] = set()
        self._is_run_removed = False
        self._announced = 0
        self._has_hinted = self._was_told_to_end = self._was_interrupted = self._has_told_wait = False
        self._poll_at = 0.0
        self._is_notified = False
        self._end_signal: int | None = None
        self._is_finishing = self._is_hurried = False

    def run(self) -> int:
        """Start the job, see it through, and tell how it ended.

        Returns:
            The status to exit with.
        Raises:
            OSError: The command cannot be started.
        """
        for folder in layout.FOLDERS:
            make_folder(self._log.path(folder))
        self._log.set_status(agent_pid=os.getpid(), node=self._log.node)
        self._write_node()
        self._say_hello()
        if self._has_judge:
            self._judge.start()
        if self._drain():
            self._job.has_ended = True
            self._job.exit_status = -(self._end_signal or signal.SIGINT)
        else:
            self._job.start()
            self._log.set_status(status="InProgress", job_pid=self._job.pid, exit_status=None, ended_ns=None)
            self._monitor.start()
            self._is_notified = notify_of_new_files(self._log.path(each) for each in _TELLING_FOLDERS)
            self._watch()
        return self._finish()

    def abandon(self) -> None:
        """Give up before the job was started."""
        self._end_judge()
        self._log.abandon()

    # while the job runs

    def _drain(self) -> bool:
        """Whether somebody asked for the end before the job was there to be told."""
        while (info := self._gate.wait(0)) is not None:
            if info.si_signo in TO_END:
                self._was_told_to_end, self._end_signal = True, info.si_signo
        return self._was_told_to_end

    def _watch(self) -> None:
        while True:
            info = self._gate.wait(self._pause())
            if info is not None and info.si_signo in TO_PASS_ON:
                self._on_signal(info)
            self._reap()
            self._job.poll()
            now = self._clock()
            self._look_for_requests(now)
            self._commands.advance(now)
            if now >= self._poll_at:
                self._poll(now)
            elif info is not None and not self._has_hinted:
                self._look_at_workers()
            is_done = self._stopping.advance(now, has_ended=self._job.has_ended)
            if self._job.has_ended and is_done and not self._awaits_other_nodes(now):
                return
            if not self._job.is_ours and self._is_attachment_over() and self._job.leave():
                return

    def _pause(self) -> float:
        if self._stopping.request is not None or not self._is_notified:
            return _EAGER_SECONDS
        return _CALM_SECONDS if self._job.is_ours else _ATTACHED_SECONDS

    def _on_signal(self, info: signal.struct_siginfo) -> None:
        is_from_terminal = came_from_terminal(info)
        if info.si_signo in TO_END:
            self._was_interrupted = True
            if not is_from_terminal:
                self._was_told_to_end, self._end_signal = True, info.si_signo
        if not is_from_terminal:
            self._job.pass_on(info.si_signo)

    def _is_attachment_over(self) -> bool:
        """Whether there is nothing more to watch in a process that goes on without us."""
        if self._was_told_to_end and self._end_signal == signal.SIGTERM:
            return True
        if self._job.has_ended:
            return False
        own = [each for each in self._workers.documents.values() if each.get("pid") in self._job.pids]
        are_known = {each.get("pid") for each in own} == self._job.pids
        are_ended = all(each.get("state") == "ended" for each in own)
        return are_known and are_ended and not self._awaits_other_nodes(self._clock())

    def _awaits_other_nodes(self, now: float) -> bool:
        """Whether the run goes on elsewhere: its status is this agent's to say."""
        if self._job.is_ours or self._log.is_secondary:
            return False
        self._look_at_workers()
        return any(
            document.get("node") != self._log.node
            and document.get("state") == "running"
            and now - self._heard_of.get(worker, now) < _SILENT_SECONDS
            for worker, document in self._workers.documents.items()
        )

    def _reap(self) -> None:
        for pid, code in reap():
            self._job.on_exit(pid, code)
            self._commands.on_exit(pid, code)
            self._compaction.on_exit(pid, code)
            if pid == self._judge.pid:
                self._judge.on_exit(code, self._clock())

    def _poll(self, now: float) -> None:
        self._poll_at = now + _CALM_SECONDS
        self._look_for_removal()
        if self._log.is_secondary and self._job_may_train() and self._take_over():
            self._become_primary()
        if self._has_judge:
            self._look_at_summary()
        self._judge.poll(now)
        self._look_at_workers()
        self._follow_horovod()
        self._write_node()
        self._log.retry()
        if not self._log.is_secondary and not self._is_run_removed:
            self._compaction.poll(now)
        for notice in self._monitor.take_notices():
            self._terminal.say(notice, "warning")
        if not self._has_hinted and now - self._started > _HINT_AFTER_SECONDS:
            self._hint()

    def _become_primary(self) -> None:
        """The agent that wrote the run's status is gone, and the run goes on here."""
        self._log.is_secondary = False
        self._log.set_status(agent_pid=os.getpid(), node=self._log.node, status="InProgress", job_pid=self._job.pid)
        self._has_judge = self._needs_judge()
        if self._has_judge:
            self._judge.start()

    def _needs_judge(self) -> bool:
        return bool(self._manifest.get("rules") or self._manifest.get("actions"))

    def _look_for_removal(self) -> None:
        if self._is_run_removed or os.path.isdir(self._log.run):
            return
        self._is_run_removed = True
        self._has_judge = False
        self._judge.retire()
        self._terminal.say("the run's folder was removed: what was captured is lost; the training goes on", "warning")

    def _look_at_summary(self) -> bool:
        """Read the judge's summary where it changed, announce what is new, and tell whether it changed."""
        if not self._summary_file.has_changed():
            return False
        self._summary = read_patiently(self._summary_file.path) or self._summary
        self._announce()
        return True

    def _has_judged_all(self) -> bool:
        """Whether all is judged, and what followed is delivered or given up."""
        self._look_at_summary()
        summary = self._summary or {}
        return bool(summary.get("complete")) and not summary.get("delivering")

    def _announce(self) -> None:
        for each in (self._summary or {}).get("announcements") or []:
            if each["id"] <= self._announced:
                continue
            self._announced = each["id"]
            if self._announced <= _MOST_ANNOUNCED or each.get("action") or each.get("kind"):
                tone = {"action": "plain", "failure": "warning"}.get(each.get("kind"), "found")
                self._terminal.say(describe_announcement(each), tone)
            elif self._announced == _MOST_ANNOUNCED + 1:
                self._terminal.say("further findings are not told one by one: leadline show", "found")

    def _look_for_requests(self, now: float) -> None:
        for request in self._inbox.take():
            self._obey(request, now)

    def _obey(self, request: Request, now: float) -> None:
        """Take up a request that is, at least in part, the agent's to fulfil; others are the workers'."""
        match request.kind:
            case "stop" if self._stopping.request is None and not self._is_finishing:
                self._begin_stop(request, now)
            case "set":
                self._acknowledge(request, set_interval(self._monitor, request))
            case "run_command" if not self._log.is_secondary:
                self._commands.take(request)

    def _begin_stop(self, request: Request, now: float) -> None:
        self._look_at_workers()
        if request.by.startswith("rule:") and not self._job_may_train():
            # a finding at the very end: the script may be keeping what it has learned
            self._acknowledge(request, f"{REFUSED}{ENDED}")
            return
        self._stopping.begin(request, now, can_be_heard=self._can_be_heard())
        self._log.set_status(status="StopSequence", stopped_by=request.by or "user")
        if not request.by.startswith("rule:"):
            self._terminal.say("stopping: it was asked to by leadline stop", "warning")

    def _acknowledge(self, request: Request, outcome: str) -> None:
        taken = Acknowledgement(request.id, f"agent-{self._log.node}", -1, time.time_ns(), outcome)
        try:
            write_acknowledgement(self._log.run, taken)
        except OSError as error:
            self._tell_unreadable(f"{request.id} could not be answered: {error.strerror}")

    def _answer_command(self, request: Request, outcome: str) -> None:
        self._acknowledge(request, outcome)
        if self._judge.is_over and outcome.startswith((FAILED, REFUSED)):
            self._terminal.say(f"run_command {outcome}", "warning")  # else the judge says so

    def _tell_unreadable(self, what: str) -> None:
        if what not in self._unreadable:
            self._unreadable.add(what)
            self._terminal.say(f"a request in {layout.CONTROL} cannot be read: {what}", "warning")

    def _can_be_heard(self) -> bool:
        """Whether some process of the job may yet stop by itself."""
        return self._unwatched is None and self._job_may_train()

    def _job_may_train(self) -> bool:
        documents = self._workers.documents.values()
        return not documents or any(each.get("state") == "running" for each in documents)

    def _look_at_workers(self) -> None:
        for worker in self._workers.poll():
            self._heard_of[worker] = self._clock()
            document = self._workers.documents[worker]
            if not self._has_hinted:
                self._terminal.say(describe_worker(document))
                self._hint()
            for key, describe in (("lost", describe_lost), ("off", describe_off)):
                if document.get(key) and (worker, key) not in self._told:
                    self._told.add((worker, key))
                    self._terminal.say(describe(worker, document[key]), "warning")
        self._find_gone()

    def _follow_horovod(self) -> None:
        if not self._is_run_removed:
            for line in self._horovod.poll(self._workers.documents):
                self._terminal.say(line, "warning")

    def _find_gone(self) -> None:
        for worker, document in self._workers.documents.items():
            is_here = document.get("node") == self._log.node and document.get("state") == "running"
            if is_here and worker not in self._gone and identify(int(document.get("pid", 0))) is None:
                self._gone.add(worker)

    # what is said

    def _say_hello(self) -> None:
        where = place(self._log.run, os.getcwd())
        name = self._manifest.get("name") or os.path.basename(self._log.run)
        if self._log.is_secondary:
            self._terminal.say(f"run {name} → {where}   joined on {self._log.node}")
            self._has_hinted = True
            return
        rules = counted(len(self._manifest.get("rules") or ()), "rule")
        state = f"preset {self._manifest.get('preset', 'standard')}, {rules}"
        if self._unwatched is not None:
            state = f"only the machine is watched: {self._unwatched}"
        self._terminal.say(f"run {name} → {where}   {state}")
        if self._unwatched is not None:
            self._hint()

    def _hint(self) -> None:
        self._has_hinted = True
        self._terminal.say("look: leadline show        stop: leadline stop")

    def _write_node(self) -> None:
        self._log.set_node(self._node_document())

    def _node_document(self) -> Document:
        return {
            "node": self._log.node,
            "agent_pid": os.getpid(),
            "started_ns": self._log.started_ns,
            "cpu_count": len(os.sched_getaffinity(0)),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "gpus": self._monitor.gpus(),
            "absent": self._monitor.absent(),
            "lost": self._monitor.lost(),
            "gone": sorted(self._gone),
        }

    # the end

    def _finish(self) -> int:
        ended = self._clock()
        self._is_finishing = True
        self._monitor.stop()
        self._look_at_workers()
        self._follow_horovod()
        if not self._has_hinted:
            self._hint()
        code = self._job.exit_status
        status, final = end_of_job(
            code,
            was_stopped=self._was_stopped(code),
            was_told_to_end=self._was_told_to_end,
            was_interrupted=self._was_interrupted,
            has_said_ended=self._has_said_ended(),
        )
        if self._log.has_unwritten or self._monitor.lost() or self._lost_by_workers():
            self._log.give_up_reserve()
        self._write_node()
        self._log.set_status(
            status=status,
            exit_status=final if code is not None or status == "Stopped" else None,
            stopped_by=self._log.status["stopped_by"] if status == "Stopped" else None,
            ended_ns=time.time_ns(),
        )
        if not self._log.is_secondary:
            self._await_judge()
            self._await_commands()
            self._fold()
            self._say_verdict(status, final, ended - self._started)
            self._compaction.finish()
        self._log.close()
        self._end_judge()  # what it had to write is written, or will not be
        return final

    def _was_stopped(self, code: int | None) -> bool:
        request = self._stopping.request
        if request is None:
            return False
        taken = any(each.id == request.id and each.outcome == "taken" for each in read_acknowledgements(self._log.run))
        return taken or code == STOPPED or self._stopping.has_used_force

    def _has_said_ended(self) -> bool:
        return all(each.get("state") == "ended" for each in self._workers.documents.values())

    def _await_judge(self) -> None:
        """Let the judge come to its end, for as long as it gets on."""
        if not self._has_judge:
            return
        began = last_progress = self._clock()
        while not self._has_judged_all() and not self._judge.is_over:
            info = self._gate.wait(_ENDING_SECONDS)
            if info is not None and info.si_signo in TO_END:
                self._is_hurried = True
                self._end_judge()
                break
            self._reap()
            now = self._clock()
            self._look_for_requests(now)
            if now - began > _WAIT_SECONDS:
                self._say_what_is_delivered()
            self._commands.advance(now)
            if self._look_at_summary():
                last_progress = now
            if now - last_progress > _JUDGE_PATIENCE_SECONDS:
                self._terminal.say("the judge does not get on and is ended", "warning")
                break
            self._judge.poll(now, is_urgent=True)
        self._look_at_summary()

    def _say_what_is_delivered(self) -> None:
        """Say once what the prompt is kept waiting for."""
        waiting = (self._summary or {}).get("delivering")
        if waiting and not self._has_told_wait:
            self._has_told_wait = True
            self._terminal.say(f"waiting to deliver {listed(waiting)}, at most half a minute; Ctrl-C ends it")

    def _await_commands(self) -> None:
        """Let commands that were asked for come to their end, each within its limit; Ctrl-C ends them."""
        self._look_for_requests(self._clock())
        if not self._commands.is_idle and not self._is_hurried:
            self._terminal.say("a command of run_command still runs: it is awaited up to its limit; Ctrl-C ends it")
        while not self._commands.is_idle:
            info = self._gate.wait(_EAGER_SECONDS)
            self._is_hurried = self._is_hurried or (info is not None and info.si_signo in TO_END)
            self._reap()
            now = self._clock()
            if self._is_hurried:
                self._commands.end(now)
            self._commands.advance(now)
        self._commands.close()

    def _end_judge(self) -> None:
        """See the judge off: it is told to end, then made to."""
        self._judge.retire()
        for number in (signal.SIGTERM, signal.SIGKILL):
            self._judge.send(number)
            end = self._clock() + _JUDGE_FAREWELL_SECONDS
            while self._judge.pid is not None and self._clock() < end:
                self._gate.wait(_ENDING_SECONDS)
                self._reap()

    def _lost_by_workers(self) -> list[Document]:
        return [
            {"worker": worker, **document["lost"]}
            for worker, document in self._workers.documents.items()
            if document.get("lost")
        ]

    def _lost(self) -> list[Document]:
        own = self._monitor.lost()
        return self._lost_by_workers() + ([{"node": self._log.node, **own}] if own else [])

    def _fold(self) -> None:
        workers = [self._workers.documents[worker] for worker in sorted(self._workers.documents)]
        nodes = [self._node_document(), *self._other_nodes()]
        additions: dict[str, Any] = {"workers": workers, "nodes": nodes}
        self._log.fold_manifest(**additions, lost=self._lost())

    def _other_nodes(self) -> list[Document]:
        """What the agents of other nodes said."""
        own = f"{self._log.node}.json"
        folder = self._log.path(layout.NODES)
        try:
            listed = os.listdir(folder)
        except FileNotFoundError:
            return []  # somebody removed the run
        names = sorted(name for name in listed if name.endswith(".json") and name != own)
        found = [read_patiently(os.path.join(folder, name)) for name in names]
        return [each for each in found if each is not None]

    def _say_verdict(self, status: str, final: int, seconds: float) -> None:
        lost = [describe_lost(each["worker"], each) for each in self._lost_by_workers()]
        lost += [self._monitor.describe_lost()] if self._monitor.lost() else []
        ending = RunOutcome(
            status=status,
            exit_status=self._job.exit_status,
            final_status=final,
            stopped_by=self._log.status["stopped_by"],
            seconds=seconds,
            workers=tuple(self._workers.documents.values()),
            run_bytes=folder_bytes(self._log.run),
            summary=self._summary,
            has_rules=self._has_judge and bool(self._manifest.get("rules")),
            actions=tuple(read_actions(self._log.run)) if self._manifest.get("actions") else (),
            lost=tuple(lost),
            unwatched=self._unwatched,
        )
        self._terminal.write(summary_lines(ending, width=self._terminal.width))
