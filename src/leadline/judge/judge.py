"""The judge: shows a run's stream to its rules while it grows, writes down what they say, and acts on it."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from leadline.actions.action import TrainingProgress
from leadline.errors import StoreFullError
from leadline.judge.action_dispatcher import ActionDispatcher, JobContext
from leadline.judge.added_rules import AddedRules, rules_of
from leadline.judge.notifications import Notifications
from leadline.judge.progress import WorkerProgress
from leadline.judge.report_renderer import ReportRenderer, printing
from leadline.judge.rule_pool import RuleProcess, WorkerLimits, gather
from leadline.judge.rule_results import RuleResults
from leadline.judge.worker_processes import WorkerProcesses
from leadline.reader import liveness
from leadline.reader.find_runs import read_manifest
from leadline.reader.run_watch import RunWatch
from leadline.records.finding import Finding
from leadline.records.manifest import RuleSpec
from leadline.records.needs import TensorNeed
from leadline.records.notification import NoticeKind
from leadline.store import layout

POLL_SECONDS: Final = 0.1
_EAGER_SECONDS: Final = 0.02
_PULSE_SECONDS: Final = 1.0
"""How often it is asked whether the run's processes are still there."""
DRAIN_SECONDS: Final = 30.0
"""How long after the end of a run what is still to be delivered is waited for."""
PRINT_SECONDS: Final = 30.0
"""The same for the reports that rules keep up to date."""
_SIGN_OF_LIFE_SECONDS: Final = 1.0


class EndedEarly(SystemExit):
    """Raised where the judge was told to end."""


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What came of one rule."""

    name: str
    """Its alias."""
    rule: str
    parameters: Mapping[str, Any]
    status: str
    verdict: str | None
    """``clear``, ``fired``, ``undecided``; None: it failed."""
    why: str
    """Why it is undecided, or how it failed."""
    judged_steps: int
    findings: tuple[Finding, ...]
    product: Mapping[str, Any] = field(default_factory=dict)
    """What it has gathered beside its verdict."""


@dataclass(frozen=True, slots=True)
class Results:
    """What came of judging a run."""

    rules: tuple[RuleResult, ...]
    damage: tuple[str, ...]
    """One line for each part of the run that could not be read."""


class Judge:
    """One judging of one run.

    Args:
        run: The run's folder.
        specs: The rules; None: those of the manifest.
        is_written: Whether documents are written into the run and actions are done.
        limits: What a rule may take.
        seats: Where rule workers are taken from; None: they are started for this run.
    Raises:
        RunNotFoundError: There is no run there.
        DamagedRunError: Its manifest cannot be read.
    """

    def __init__(
        self,
        run: str,
        specs: Sequence[RuleSpec] | None = None,
        *,
        is_written: bool = True,
        limits: WorkerLimits | None = None,
        seats: WorkerProcesses | None = None,
    ) -> None:
        manifest = read_manifest(run)
        specs = rules_of(run, manifest) if specs is None else specs
        self._run, self._manifest, self._seats, self._limits = run, manifest, seats, limits or WorkerLimits()
        self._is_acting = is_written
        self._needs: dict[str, list[TensorNeed]] = {}
        self._looks_at_phases: set[str] = set()
        self._printers: dict[str, ReportRenderer] = {}
        self._ledger = RuleResults(run, specs, is_written=is_written)
        self._pace, self._notices = WorkerProgress(), Notifications(run, manifest)
        around = JobContext(self._running, self._can_be_heard, self._ledger.say)
        self._acting = ActionDispatcher(run, manifest, around, is_acting=is_written)
        self._told_version = -1
        self._crew = [
            RuleProcess(run, manifest, group, self._limits, self._ledger.blame, seats) for group in gather(specs)
        ]
        self._added = AddedRules(run, lambda: self._ledger.entries, self._add)
        self._watch = RunWatch(run)
        self._damage: dict[str, None] = {}
        self._steps: dict[int, int] = {}
        self._gone: frozenset[str] = frozenset()
        self._is_over = False
        self._pulse_at = 0.0
        self._status_ns = -1
        self._poll_seconds = POLL_SECONDS

    def judge(self, *, follow: bool) -> Results:
        """Judge the run as it stands, or until it is over and all of it is judged."""
        self._is_over, self._is_following = not follow, follow
        for each in self._crew:
            each.start(is_over=self._is_over)
        try:
            self._tell_job()
            while not all(each.is_finished for each in self._crew) or not self._is_over:
                self._turn()
        finally:
            for each in self._crew:
                each.close()
        self._tell_what_is_missing(liveness.read_workers(self._run))
        self._ledger.complete()
        self._tell_job()
        self._tell_rules()
        self._deliver_the_rest()
        self._print_the_rest()
        self._ledger.finish()
        if self._ledger.write_error is not None:
            raise StoreFullError(
                f"the verdict could not be written: {self._ledger.write_error}; make room and judge again"
            )
        return self._results()

    def _deliver_the_rest(self) -> None:
        """Wait a while for what is still under way; then it is given up."""
        try:
            self._await_deliveries(time.monotonic() + DRAIN_SECONDS)
            self._acting.give_up("the run had ended")
            self._acting.close()
            while any(lane.descriptor is not None for lane in self._acting.lanes):
                self._hear_couriers(_EAGER_SECONDS)
        except EndedEarly:  # the couriers end with this process
            self._acting.give_up("the judge was told to end")

    def _print_the_rest(self) -> None:
        """Have the reports of rules made of all that was judged; after a while that is given up."""
        if not self._printers:
            return
        try:
            self._await_reports(time.monotonic() + PRINT_SECONDS)
        except EndedEarly:
            pass
        finally:
            for each in self._printers.values():
                each.close()

    def _await_reports(self, until: float) -> None:
        told_at = 0.0
        for each in self._printers.values():
            each.want()
        while waiting := [each for each in self._printers.values() if each.is_busy or each.is_wanted]:
            if (now := time.monotonic()) >= until:
                return
            if now - told_at >= _SIGN_OF_LIFE_SECONDS:
                told_at = now
                self._ledger.finish([each.name for each in waiting])
            for each in waiting:
                each.turn(is_last=True)
            time.sleep(_EAGER_SECONDS)

    def _await_deliveries(self, until: float) -> None:
        told_at = 0.0
        while (pending := self._acting.pending) and (now := time.monotonic()) < until:
            if now - told_at >= _SIGN_OF_LIFE_SECONDS:
                told_at = now
                self._ledger.finish(pending)
            self._hear_couriers(_EAGER_SECONDS)

    def _hear_couriers(self, seconds: float) -> None:
        with selectors.DefaultSelector() as selector:
            for lane in self._acting.lanes:
                if lane.descriptor is not None:
                    selector.register(lane.descriptor, selectors.EVENT_READ, lane)
            for key, _ in selector.select(seconds):
                key.data.hear()
        self._acting.turn()

    def _turn(self) -> None:
        if not self._is_over:
            self._look()
        for each in self._crew:
            each.ask(is_over=self._is_over, gone=self._gone)
        self._listen()
        for each in self._crew:
            each.check_hang()
        self._tell_rules()
        self._acting.turn()
        for printer in self._printers.values():
            printer.turn()
        self._ledger.write()

    def _tell_rules(self) -> None:
        """Have the actions that want it told where the rules stand, when that changed."""
        if self._acting.wants_statuses and self._told_version != self._ledger.version:
            self._told_version = self._ledger.version
            for notice in self._notices.of_rules(self._ledger.states()):
                self._acting.follow(notice)

    def _tell_job(self) -> None:
        """Have the actions that want it told how the job goes on."""
        if self._acting.lanes:
            document, status = liveness.read_status(self._run), liveness.effective_status(self._run)
            for notice in self._notices.of_job(document, self._ledger.states(), status=status):
                self._acting.follow(notice)

    def _look(self) -> None:
        """Find out whether there is something new, by ``stat``; and now and then whether the run is over."""
        if self._is_acting:
            self._added.take(self._ledger.judged_step)
        now = time.monotonic()
        status_ns = _changed_ns(os.path.join(self._run, layout.STATUS))
        has_changed = self._watch.has_changed()
        if status_ns != self._status_ns or now - self._pulse_at >= _PULSE_SECONDS:
            self._status_ns, self._pulse_at = status_ns, now
            workers = liveness.read_workers(self._run)
            self._tell_what_is_missing(workers)
            gone = frozenset(liveness.finished_workers(self._run, workers))
            self._is_over = liveness.is_over(self._run)
            if liveness.read_status(self._run).get("status") == "Stopping":
                self._poll_seconds = _EAGER_SECONDS  # somebody waits for the end
            self._tell_job()
            has_changed = has_changed or self._is_over or gone != self._gone
            self._gone = gone
        if has_changed:
            for each in self._crew:
                each.want()

    def _add(self, specs: Sequence[RuleSpec]) -> None:
        """Judge by more rules from now on: each from the run's beginning, as after a restart."""
        self._ledger.include(specs)
        for group in gather(specs):
            process = RuleProcess(self._run, self._manifest, group, self._limits, self._ledger.blame, self._seats)
            process.start(is_over=self._is_over)
            self._crew.append(process)

    def _tell_what_is_missing(self, workers: Mapping[str, Mapping[str, Any]]) -> None:
        """What a worker could not write, or did not capture any more, is not clear to the rules that need it."""
        for alias, needs in self._needs.items():
            has_phases = alias in self._looks_at_phases
            missing = [_missing(each, needs, has_phases=has_phases) for _, each in sorted(workers.items())]
            self._ledger.go_blind(alias, next((each for each in missing if each), ""))

    def _listen(self) -> None:
        with selectors.DefaultSelector() as selector:
            for each in self._crew:
                if not each.is_finished:
                    selector.register(each.descriptor, selectors.EVENT_READ, each)
            for lane in self._acting.lanes:
                if lane.descriptor is not None:
                    selector.register(lane.descriptor, selectors.EVENT_READ, lane)
            if not selector.get_map():
                time.sleep(0.0 if self._is_over else POLL_SECONDS)
                return
            for key, _ in selector.select(self._poll_seconds):
                if isinstance(key.data, RuleProcess):
                    self._hear(key.data)
                else:
                    key.data.hear()

    def _hear(self, process: RuleProcess) -> None:
        answers = process.receive()
        self._learn(process)
        for answer in answers:
            self._take(answer, process)

    def _learn(self, process: RuleProcess) -> None:
        """Take in what a worker says of its rules once it has made them."""
        for alias, said in process.described.items():
            if "error" in said:
                self._ledger.blame(alias, said["error"])
                continue
            self._needs[alias] = [TensorNeed(**each) for each in said["needs"]]
            self._looks_at_phases |= {alias} if said["has_phases"] else set()
            if self._is_acting:
                self._acting.imply(alias, said["implied"])
                if said["product"]:
                    command = printing(self._run, said["product"])
                    self._printers[alias] = ReportRenderer(
                        f"{said['product']} report", command, self._complain_of(alias)
                    )
            self._ledger.describe(alias, said["parameters"], tuple(said["explains"]))
        process.described = {}

    def _complain_of(self, alias: str) -> Callable[[str], None]:
        return lambda why: self._ledger.say(alias, why, True)

    def _take(self, answer: Mapping[str, Any], process: RuleProcess) -> None:
        for alias in answer["begun_again"]:
            self._ledger.begin_again(alias)
            self._notices.begin_again(alias)
        self._pace.see(answer["seen"])
        for alias, event in answer["events"]:
            finding = self._ledger.add(alias, event)
            if self._is_acting:
                self._follow(finding, is_opening=event["event"] == "opened")
        for alias, state in answer["rules"].items():
            self._ledger.update(alias, state)
            if alias in self._printers:
                self._printers[alias].want()
        self._steps[id(process)] = answer["judged_step"]
        self._ledger.judged_step = min(self._steps.values())
        self._damage.update(dict.fromkeys(answer["damage"]))

    def _follow(self, finding: Finding, *, is_opening: bool) -> None:
        """Do what follows a finding that opened or closed, and have the terminal told of those that opened."""
        told = None
        if self._acting.lanes and (is_opening or self._acting.wants_statuses):
            kind: NoticeKind = "finding" if is_opening else "closed"
            told = self._acting.follow(self._notices.of_finding(finding, kind, self._ledger.states()))
        if is_opening:
            self._ledger.announce(finding, told)

    def _running(self) -> tuple[TrainingProgress, ...]:
        return self._pace.progress(liveness.read_workers(self._run), self._gone)

    def _can_be_heard(self, place: str) -> bool:
        """Whether somebody is still there who takes requests up."""
        if place == "agent":
            return self._is_following and liveness.has_agent(self._run)
        if self._is_over and liveness.is_over(self._run):
            return False
        workers = liveness.read_workers(self._run)
        return not workers or bool(set(workers) - liveness.finished_workers(self._run, workers))

    def _results(self) -> Results:
        results = []
        for alias, entry in self._ledger.entries.items():
            results.append(
                RuleResult(
                    alias,
                    entry.spec.rule,
                    entry.parameters,
                    entry.status(is_complete=True),
                    entry.spoken_verdict(is_complete=True),
                    entry.reason,
                    entry.judged_steps,
                    tuple(entry.findings[each] for each in sorted(entry.findings)),
                    entry.product,
                )
            )
        return Results(tuple(results), tuple(self._damage))


def judge_run(
    run: str | os.PathLike[str],
    rules: Sequence[RuleSpec] | None = None,
    *,
    write: bool = False,
    follow: bool = False,
    limits: WorkerLimits | None = None,
) -> Results:
    """Judge a run as it stands.

    Args:
        run: Its folder.
        rules: Other rules than those of the run; None: its own.
        write: Write the documents into the run, and do its actions.
        follow: Go on until the run is over.
        limits: What a rule may take.
    Raises:
        RunNotFoundError: There is no run there.
        DamagedRunError: Its manifest cannot be read.
        StoreFullError: The documents could not be written.
    """
    return Judge(os.path.abspath(run), rules, is_written=write, limits=limits).judge(follow=follow)


def _missing(worker: Mapping[str, Any], needs: Sequence[TensorNeed], *, has_phases: bool = False) -> str:
    """Why what a rule needs is not all there; "" where it is."""
    off, lost = worker.get("off"), worker.get("lost")
    if off and (needs or has_phases):
        return f"capture went off at step {off['step']:,}: {off['error']}"
    if lost and ((lost["rows"] and (needs or has_phases)) or (lost["tensors"] and any(need.raw for need in needs))):
        return f"from step {lost['since_step']:,} on something was not written: {lost['reason']}"
    return ""


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return -1
