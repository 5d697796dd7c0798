"""The judge: shows a run's stream to its rules while it grows, writes down what they say, and acts on it."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leadline.errors import StoreFullError
from leadline.judge.acting import Acting, Pace
from leadline.judge.crew import Limits, RuleProcess, gather
from leadline.judge.ledger import Ledger
from leadline.reader import liveness
from leadline.reader.locate import read_manifest
from leadline.reader.watch import RunWatch
from leadline.records.finding import Finding
from leadline.records.manifest import ActionSpec, RuleSpec
from leadline.records.needs import TensorNeed
from leadline.store import layout

POLL_SECONDS: Final = 0.1
_EAGER_SECONDS: Final = 0.02
_PULSE_SECONDS: Final = 1.0
"""How often it is asked whether the run's processes are still there."""


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
        limits: Limits | None = None,
    ) -> None:
        manifest = read_manifest(run)
        specs = manifest.rules if specs is None else specs
        self._run = run
        self._is_acting = is_written
        self._needs: dict[str, list[TensorNeed]] = {}
        self._implied: dict[str, tuple[str, ...]] = {}
        self._ledger = Ledger(run, specs, is_written=is_written)
        actions: tuple[ActionSpec, ...] = manifest.actions if is_written else ()
        self._acting, self._pace = Acting(run, actions), Pace()
        self._crew = [
            RuleProcess(run, manifest, group, limits or Limits(), self._ledger.blame) for group in gather(specs)
        ]
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
        self._is_over = not follow
        for each in self._crew:
            each.start()
        try:
            while not all(each.is_finished for each in self._crew) or not self._is_over:
                self._turn()
        finally:
            for each in self._crew:
                each.close()
        self._acting.write()
        self._tell_what_is_missing(liveness.read_workers(self._run))
        self._ledger.finish()
        if self._ledger.write_error is not None:
            raise StoreFullError(
                f"the verdict could not be written: {self._ledger.write_error}; make room and judge again"
            )
        return self._results()

    def _turn(self) -> None:
        if not self._is_over:
            self._look()
        for each in self._crew:
            each.ask(is_over=self._is_over, gone=self._gone)
        self._listen()
        for each in self._crew:
            each.check_hang()
        self._ledger.write()

    def _look(self) -> None:
        """Find out whether there is something new, by ``stat``; and now and then whether the run is over."""
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
            has_changed = has_changed or self._is_over or gone != self._gone
            self._gone = gone
        if has_changed:
            for each in self._crew:
                each.want()

    def _tell_what_is_missing(self, workers: Mapping[str, Mapping[str, Any]]) -> None:
        """What a worker could not write, or did not capture any more, is not clear to the rules that need it."""
        for alias, needs in self._needs.items():
            missing = [_missing(document, needs) for _, document in sorted(workers.items())]
            self._ledger.go_blind(alias, next((each for each in missing if each), ""))

    def _listen(self) -> None:
        with selectors.DefaultSelector() as selector:
            for each in self._crew:
                if not each.is_finished:
                    selector.register(each.descriptor, selectors.EVENT_READ, each)
            if not selector.get_map():
                time.sleep(0.0 if self._is_over else POLL_SECONDS)
                return
            for key, _ in selector.select(self._poll_seconds):
                answers = key.data.receive()
                self._learn(key.data)
                for answer in answers:
                    self._take(answer, key.data)

    def _learn(self, process: RuleProcess) -> None:
        """Take in what a worker says of its rules once it has made them."""
        for alias, said in process.described.items():
            if "error" in said:
                self._ledger.blame(alias, said["error"])
                continue
            self._needs[alias] = [TensorNeed(**each) for each in said["needs"]]
            self._implied[alias] = tuple(said["implied"])
            self._ledger.describe(alias, said["parameters"], tuple(said["explains"]))
        process.described = {}

    def _take(self, answer: Mapping[str, Any], process: RuleProcess) -> None:
        for alias in answer["begun_again"]:
            self._ledger.begin_again(alias)
        self._pace.see(answer["seen"])
        for alias, event in answer["events"]:
            finding = self._ledger.add(alias, event)
            if event["event"] == "opened" and self._is_acting:
                self._ledger.announce(finding, self._act(alias, finding))
        for alias, state in answer["rules"].items():
            self._ledger.update(alias, state)
        self._steps[id(process)] = answer["judged_step"]
        self._ledger.judged_step = min(self._steps.values())
        self._damage.update(dict.fromkeys(answer["damage"]))

    def _act(self, alias: str, finding: Finding) -> str | None:
        implied = self._implied[alias]
        workers = self._pace.progress(liveness.read_workers(self._run), self._gone)
        is_over = self._is_over and liveness.is_over(self._run)
        return self._acting.follow(finding, implied=implied, workers=workers, is_over=is_over)

    def _results(self) -> Results:
        results = []
        for alias, entry in self._ledger.entries.items():
            results.append(RuleResult(
                alias, entry.spec.rule, entry.parameters, entry.status(is_complete=True),
                entry.spoken_verdict(is_complete=True), entry.reason, entry.judged_steps,
                tuple(entry.findings[each] for each in sorted(entry.findings)),
            ))  # fmt: skip
        return Results(tuple(results), tuple(self._damage))


def judge_run(
    run: str | os.PathLike[str], rules: Sequence[RuleSpec] | None = None, *, write: bool = False, follow: bool = False,
    limits: Limits | None = None,
) -> Results:  # fmt: skip
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


def _missing(worker: Mapping[str, Any], needs: Sequence[TensorNeed]) -> str:
    """Why what a rule needs is not all there; "" where it is."""
    off, lost = worker.get("off"), worker.get("lost")
    if off and needs:
        return f"capture went off at step {off['step']:,}: {off['error']}"
    if lost and ((lost["rows"] and needs) or (lost["tensors"] and any(need.raw for need in needs))):
        return f"from step {lost['since_step']:,} on something was not written: {lost['reason']}"
    return ""


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return -1
