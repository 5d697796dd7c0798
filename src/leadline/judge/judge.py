"""The judge: evaluates the rules of a run while it grows, writes their results, and dispatches the actions."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from leadline.actions.action import TrainingProgress
from leadline.errors import LeadlineError
from leadline.judge.action_dispatcher import ActionDispatcher
from leadline.judge.coverage import missing_data
from leadline.judge.delivery import JobContext, WorkerProgress
from leadline.judge.notifications import Notifications
from leadline.judge.report_renderer import ReportRenderer, render_command
from leadline.judge.rule_changes import RuleChanges, rules_of
from leadline.judge.rule_entry import Results
from leadline.judge.rule_pool import RuleProcess, WorkerLimits, WorkerProcesses, group_rules
from leadline.judge.rule_results import RuleResultStore
from leadline.judge.run_trust import RunTrust
from leadline.judge.worker_messages import EvaluationAnswer
from leadline.process.stall import STARVED_SECONDS
from leadline.reader import liveness
from leadline.reader.find_runs import read_manifest
from leadline.reader.liveness import RunWatch
from leadline.records.documents import WorkerDocument
from leadline.records.manifest import RuleSpec
from leadline.records.needs import TensorNeed
from leadline.records.notification import NotificationKind
from leadline.records.outcome import run_outcome
from leadline.store import layout
from leadline.store.run_state import read_status, read_workers
from leadline.store.terms import last_agent

POLL_SECONDS: Final = 0.1
_FAST_POLL_SECONDS: Final = 0.02
_LIVENESS_SECONDS: Final = 1.0
"""How often the processes of the run are checked."""
DRAIN_SECONDS: Final = 30.0
"""How long deliveries may take after the end of a run."""
RENDER_SECONDS: Final = 30.0
"""How long the report of a rule may take after the end of a run; its wait for a processor does not count."""
_HEARTBEAT_SECONDS: Final = 1.0
"""The interval at which the summary is written while the judge waits for deliveries or reports."""


class JudgeTerminated(SystemExit):
    """Raised when the judge is asked to end."""


class Judge:
    """One evaluation of the rules of one run.

    Args:
        run: The run directory.
        specs: The rules, which are trusted; None: those of the run.
        is_written: Whether documents are written into the run and actions are performed.
        limits: The limits of time and memory for a rule.
        worker_processes: The pool of rule workers; None: they are started for this run.
        trust: What the run may execute; see ``RunTrust``.
    Raises:
        RunNotFoundError: There is no such run.
        DamagedRunError: Its manifest cannot be read.
    """

    def __init__(
        self,
        run: str,
        specs: Sequence[RuleSpec] | None = None,
        *,
        is_written: bool = True,
        limits: WorkerLimits | None = None,
        worker_processes: WorkerProcesses | None = None,
        trust: RunTrust | None = None,
    ) -> None:
        self._trust = trust or RunTrust()
        manifest = self._trust.without_foreign_actions(read_manifest(run))
        left_out = self._trust.left_out(rules_of(run, manifest), manifest) if specs is None else {}
        specs = rules_of(run, manifest) if specs is None else specs
        self._run, self._manifest, self._agent = run, manifest, last_agent(run)
        self._worker_processes, self._limits = worker_processes, limits or WorkerLimits()
        self._is_acting = is_written
        self._needs: dict[str, list[TensorNeed]] = {}
        self._reads_phases: set[str] = set()
        self._renderers = dict[str, ReportRenderer]()
        self._rule_results = RuleResultStore(run, specs, is_written=is_written)
        for alias, why in left_out.items():
            self._rule_results.leave_out(alias, why)
        self._progress, self._notifications = WorkerProgress(), Notifications(run, manifest)
        context = JobContext(self._running, self._accepts_requests, self._rule_results.announce_action)
        self._dispatcher = ActionDispatcher(run, manifest, context, is_acting=is_written)
        self._reported_version = -1
        self._rule_processes = [
            RuleProcess(run, manifest, group, self._limits, self._rule_results.mark_failed, worker_processes)
            for group in group_rules([spec for spec in specs if spec.alias not in left_out])
        ]
        takes = partial(self._trust.takes, manifest=manifest)
        self._changes = RuleChanges(run, lambda: self._rule_results.entries, self._add, self._remove, takes)
        self._watch = RunWatch(run)
        self._damage, self._steps = dict[str, None](), dict[int, int]()
        self._gone: frozenset[str] = frozenset()
        self._is_over, self._liveness_at = False, 0.0
        self._status_ns = -1
        self._poll_seconds = POLL_SECONDS

    def judge(self, *, follow: bool) -> Results:
        """Evaluate the run as it is, or follow it until it is over and completely evaluated."""
        self._is_over, self._is_following = not follow, follow
        for process in self._rule_processes:
            process.start(is_over=self._is_over)
        try:
            self._notify_job()
            while not self._is_evaluated:
                self._advance()
        except JudgeTerminated:
            unfinished = (process for process in self._rule_processes if not process.is_finished)
            self._rule_results.end_early(spec.alias for process in unfinished for spec in process.specs)
            raise
        finally:
            for process in self._rule_processes:
                process.close()
        self._check_missing_data(read_workers(self._run))
        self._rule_results.complete()
        self._notify_job(is_judged=True)
        self._notify_rules()
        self._finish_deliveries()
        self._finish_reports()
        self._rule_results.processor_seconds = sum(os.times()[:4]) if follow else None  # the workers have ended
        self._rule_results.finish()
        self._rule_results.check_written()
        return self._rule_results.results(self._damage)

    def _finish_deliveries(self) -> None:
        """Wait for the pending deliveries, then give up."""
        try:
            self._await(lambda: self._dispatcher.pending, self._receive_deliveries, DRAIN_SECONDS)
            self._dispatcher.give_up("the run had ended")
            self._dispatcher.close()
            while any(queue.descriptor is not None for queue in self._dispatcher.queues):
                self._receive_deliveries()
        except JudgeTerminated:  # the action workers end with this process
            self._dispatcher.give_up("the judge was terminated")

    def _finish_reports(self) -> None:
        """Wait for the final reports of the rules, then give up."""
        renderers = list(self._renderers.values())
        for renderer in renderers:
            renderer.begin_last()
        try:
            self._await(lambda: _awaited(renderers), self._render, STARVED_SECONDS)
            for renderer in renderers:
                renderer.give_up()
        except JudgeTerminated:
            return
        finally:
            for renderer in renderers:
                renderer.close()

    def _await(self, pending: Callable[[], list[str]], advance: Callable[[], None], seconds: float) -> None:
        """Advance until nothing is pending, and write the summary every second meanwhile."""
        until, written_at = time.monotonic() + seconds, 0.0
        while (names := pending()) and (now := time.monotonic()) < until:
            if now - written_at >= _HEARTBEAT_SECONDS:
                written_at = now
                self._rule_results.finish(names)
            advance()

    def _receive_deliveries(self) -> None:
        self._receive(_FAST_POLL_SECONDS)
        self._dispatcher.advance()

    def _render(self) -> None:
        for renderer in self._renderers.values():
            renderer.advance(is_last=True)
        time.sleep(_FAST_POLL_SECONDS)

    @property
    def _is_evaluated(self) -> bool:
        return self._is_over and all(process.is_finished for process in self._rule_processes)

    def _advance(self) -> None:
        if not self._is_over:
            self._check_run()
        elif self._is_following:
            self._rule_results.beat()
        for process in self._rule_processes:
            process.ask(is_over=self._is_over, gone=self._gone)
        self._receive(0.0 if self._is_evaluated else self._poll_seconds)
        for process in self._rule_processes:
            process.check_hang(is_awaited=self._is_over and self._is_following)
        self._notify_rules()
        self._dispatcher.advance()
        for renderer in self._renderers.values():
            renderer.advance()
        self._rule_results.write()

    def _notify_rules(self) -> None:
        """Dispatch the changed states of rules to the actions that follow them."""
        if self._dispatcher.needs_statuses and self._reported_version != self._rule_results.version:
            self._reported_version = self._rule_results.version
            for notification in self._notifications.of_rules(self._rule_results.states()):
                self._dispatcher.dispatch(notification)

    def _notify_job(self, *, is_judged: bool = False) -> None:
        """Dispatch the changed states of the job to the actions that follow them.

        Args:
            is_judged: Whether everything is evaluated, so that the end of the job can be announced with its outcome.
        """
        if not self._dispatcher.queues:
            return
        document = replace(read_status(self._run), status=liveness.effective_status(self._run))
        outcome = None
        if is_judged:
            outcome = run_outcome(document, self._rule_results.summary(), read_workers(self._run).values())
        for notification in self._notifications.of_job(document, self._rule_results.states(), outcome):
            self._dispatcher.dispatch(notification)

    def _check_run(self) -> None:
        """Find out by ``stat`` whether there is new data, and every second whether the run is over."""
        if self._is_acting:
            self._changes.take(self._rule_results.judged_step)
        now = time.monotonic()
        status_ns = _changed_ns(os.path.join(self._run, layout.STATUS))
        has_changed = any(process.is_waiting for process in self._rule_processes) and self._watch.has_changed()
        if status_ns != self._status_ns or now - self._liveness_at >= _LIVENESS_SECONDS:
            self._status_ns, self._liveness_at = status_ns, now
            if self._is_acting and last_agent(self._run) != self._agent:
                raise LeadlineError("this judge of a killed agent ends: another agent continues the run with its own")
            workers = read_workers(self._run)
            self._check_missing_data(workers)
            gone = frozenset(liveness.finished_workers(self._run, workers))
            self._is_over = liveness.is_over(self._run)
            if read_status(self._run).status == "Stopping":
                self._poll_seconds = _FAST_POLL_SECONDS  # the user waits for the end
            self._notify_job()
            has_changed = has_changed or self._is_over or gone != self._gone
            self._gone = gone
        if has_changed:
            for process in self._rule_processes:
                process.mark_pending()

    def _add(self, specs: Sequence[RuleSpec]) -> None:
        """Evaluate more rules from now on, each from the beginning of the run."""
        self._rule_results.add_rules(specs)
        for group in group_rules(specs):
            process = RuleProcess(
                self._run, self._manifest, group, self._limits, self._rule_results.mark_failed, self._worker_processes
            )
            process.start(is_over=self._is_over)
            self._rule_processes.append(process)

    def _remove(self, aliases: Sequence[str]) -> None:
        """Evaluate rules no longer; what they have found is kept."""
        self._rule_results.remove_rules(aliases)
        for process in self._rule_processes:
            process.remove(aliases)
        for alias in aliases:
            self._needs.pop(alias, None)

    def _check_missing_data(self, workers: Mapping[str, WorkerDocument]) -> None:
        """Record for each rule whether a worker dropped data that it needs, or disabled capture."""
        for alias, needs in self._needs.items():
            has_phases = alias in self._reads_phases
            reasons = [missing_data(document, needs, has_phases=has_phases) for _, document in sorted(workers.items())]
            self._rule_results.set_missing_data(alias, next((reason for reason in reasons if reason), ""))

    def _receive(self, seconds: float) -> None:
        """Take the answers of rule workers and action workers; wait for at most so long if there are none."""
        with selectors.DefaultSelector() as selector:
            for process in self._rule_processes:
                if not process.is_finished:
                    selector.register(process.descriptor, selectors.EVENT_READ, process)
            for queue in self._dispatcher.queues:
                if queue.descriptor is not None:
                    selector.register(queue.descriptor, selectors.EVENT_READ, queue)
            for key, _ in selector.select(seconds):
                if isinstance(key.data, RuleProcess):
                    self._take_answers(key.data)
                else:
                    key.data.receive()

    def _take_answers(self, process: RuleProcess) -> None:
        answers = process.receive()
        self._take_descriptions(process)
        for answer in answers:
            self._take(answer, process)

    def _take_descriptions(self, process: RuleProcess) -> None:
        """Take the descriptions that a worker sends of its rules once it has constructed them."""
        for alias, description in process.described.items():
            if "error" in description:
                self._rule_results.mark_failed(alias, description["error"])
                continue
            self._needs[alias] = [TensorNeed(**need) for need in description["needs"]]
            self._reads_phases |= {alias} if description["has_phases"] else set()
            if self._is_acting:
                self._dispatcher.add_implied(alias, description["implied"])
                if product := description["product"]:
                    command = render_command(self._run, product)
                    self._renderers[alias] = ReportRenderer(f"{product} report", command, self._warner(alias))
            explains, severity = tuple(description["explains"]), description["severity"]
            self._rule_results.describe(alias, description["parameters"], explains, severity)
        process.described = {}

    def _warner(self, alias: str) -> Callable[[str], None]:
        return lambda why: self._rule_results.announce_action(alias, why, True)

    def _take(self, answer: EvaluationAnswer, process: RuleProcess) -> None:
        for alias in answer["restarted"]:
            self._rule_results.restart(alias)
            self._notifications.restart(alias)
        self._progress.update(answer["seen"])
        self._add_findings(answer)
        for alias, state in answer["rules"].items():
            self._rule_results.update(alias, state)
            if alias in self._renderers:
                self._renderers[alias].mark_outdated()
        self._steps[id(process)] = answer["judged_step"]
        self._rule_results.judged_step = min(self._steps.values())
        self._damage.update(dict.fromkeys(answer["damage"]))

    def _add_findings(self, answer: EvaluationAnswer) -> None:
        """Add findings that opened or closed, dispatch them, and announce in the terminal those that opened.

        Each is dispatched with the states of the rules at that moment; what explains it may be found later.
        """
        added = []
        for alias, event in answer["events"]:
            is_opening = event["event"] == "opened"
            finding = self._rule_results.add(alias, event)
            is_dispatched = bool(self._dispatcher.queues) and (is_opening or self._dispatcher.needs_statuses)
            states = self._rule_results.states() if self._is_acting and is_dispatched else None
            added.append((finding, is_opening, states))
        if not self._is_acting or not added:
            return
        causes = self._rule_results.causes()
        for finding, is_opening, states in added:
            action = None
            if states is not None:
                kind: NotificationKind = "finding" if is_opening else "closed"
                agreeing, cause = self._rule_results.agreeing(finding), causes.get(finding.rule)
                notification = self._notifications.of_finding(agreeing, kind, states, explained_by=cause)
                action = self._dispatcher.dispatch(notification)
            if is_opening:
                self._rule_results.announce(finding, action, causes)

    def _running(self) -> tuple[TrainingProgress, ...]:
        return self._progress.progress(read_workers(self._run), self._gone)

    def _accepts_requests(self, place: str) -> bool:
        """Return whether the agent, or a worker, still takes requests."""
        if place == "agent":
            return self._is_following and liveness.has_agent(self._run)
        if self._is_over and liveness.is_over(self._run):
            return False
        workers = read_workers(self._run)
        return not workers or bool(set(workers) - liveness.finished_workers(self._run, workers))


def judge_run(
    run: str | os.PathLike[str],
    rules: Sequence[RuleSpec] | None = None,
    *,
    write: bool = False,
    follow: bool = False,
    limits: WorkerLimits | None = None,
    trust: RunTrust | None = None,
) -> Results:
    """Evaluate the rules of a run.

    Args:
        run: The run directory.
        rules: Other rules than those of the run; None: its own, as far as they are built in or trusted.
        write: Whether to write the results into the run and to perform its actions.
        follow: Whether to continue until the run is over.
        limits: The limits of time and memory for a rule.
        trust: What the run may execute; see ``RunTrust``.
    Raises:
        RunNotFoundError: There is no such run.
        DamagedRunError: Its manifest cannot be read.
        StoreFullError: The results could not be written, because the disk is full.
        LeadlineError: They could not be written for another reason.
    """
    return Judge(os.path.abspath(run), rules, is_written=write, limits=limits, trust=trust).judge(follow=follow)


def _awaited(renderers: Sequence[ReportRenderer]) -> list[str]:
    return [renderer.name for renderer in renderers if renderer.is_awaited(RENDER_SECONDS)]


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return -1
