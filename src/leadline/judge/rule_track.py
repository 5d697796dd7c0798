"""The state of one rule in the stream of a run."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from leadline.analysis.advice import PYTORCH, frameworks_of_run, in_terms_of
from leadline.config.secrets import scrub
from leadline.errors import LeadlineError
from leadline.judge.coverage import Coverage, missing
from leadline.judge.episodes import Episodes, Event
from leadline.judge.model_kind import ModelKind, is_network_collection
from leadline.judge.module_classes import ModuleClasses
from leadline.judge.trainings import Trainings
from leadline.judge.worker_messages import RuleTrackState
from leadline.reader.feed import OtherRun
from leadline.reader.find_runs import find_run
from leadline.reader.interval import Interval
from leadline.reader.point import Point
from leadline.reader.view import View
from leadline.reader.window import Scan, Window
from leadline.records.json_object import JsonObject
from leadline.records.needs import Needs
from leadline.records.plan import CaptureItem
from leadline.records.recorded_facts import why_unrecorded
from leadline.records.verdict import Fired, Verdict, VerdictTally
from leadline.rules.rule import Rule
from leadline.statistics.definitions import is_vector

_T = TypeVar("_T")
_BUILT_IN: Final = "leadline.rules."


class RuleTrack:
    """The state of one rule in the stream of a run."""

    def __init__(self, alias: str, rule: Rule, run: str, plan: Sequence[CaptureItem] = ()) -> None:
        self.alias, self.rule = alias, rule
        self.error: str | None = None
        self.needs: Needs = rule.needs()
        self._run, self._plan = run, plan
        self.begin()

    @property
    def is_of_time(self) -> bool:
        return self.needs.scan_seconds is not None

    @property
    def needs_arrays(self) -> bool:
        return any(need.raw or any(map(is_vector, need.statistics)) for need in self.needs.tensors)

    def begin(self) -> None:
        """Forget everything that was evaluated."""
        self.view = View(self.needs.tensors)
        self.episodes = Episodes(self.alias, passes=self.rule.passes)
        self.judged_steps, self.judged_step = 0, -1
        self._judged = (-1, 0, -1)
        """Of the last window: its train step, time and global step."""
        self.tally = VerdictTally()
        self.coverage = Coverage(self.alias, self.needs.tensors, self._plan)
        self.memory: Any = None
        self.product: JsonObject = {}
        self.trainings = Trainings()
        self._interval = Interval()
        self._frameworks: tuple[str, ...] | None = None
        self.others = self._open_others()

    def _open_others(self) -> dict[str, OtherRun]:
        """Open the runs to compare with; names are looked up in the folder of the run itself."""
        root = os.path.dirname(os.path.abspath(self._run))
        needs, with_arrays = self.needs.tensors, self.needs_arrays
        try:
            return {name: OtherRun(find_run(name, root), needs, with_arrays=with_arrays) for name in self.needs.runs}
        except LeadlineError as error:
            self.error = str(error)
            return {}

    def other_windows(self, point: Point) -> dict[str, Window]:
        """Return what the other runs have at a point, by name."""
        windows = {name: other.window(point) for name, other in self.others.items()}
        return {name: window for name, window in windows.items() if window is not None}

    def scan_window(self, scan: Scan) -> Window | None:
        """Return the window of a scan, with all data since the last one; None: the rule scans less often."""
        self._interval.extend(scan.interval, self.needs)
        if not is_scan_time(self.needs, scan):
            return None
        interval, self._interval = self._interval, Interval()
        scan = replace(scan, interval=interval)
        return Window(scan.last_step, "train", scan.time_ns, global_step=scan.last_global_step, scan=scan)

    def begin_training(self, point: Point) -> list[Event]:
        """Begin another training of some workers with a point; return the findings that end with the one before.

        The rule starts over, since all that it remembers is of the training before, unless it follows the process.
        """
        if self.rule.spans_trainings:
            return []
        self.view.begin_training(point.begins, point.train_step)
        self.trainings.begin(point.begins, point.train_step, self.tally, self.rule.least_observations, self._found())
        self.tally, self.memory, self.product = VerdictTally(), None, {}
        return self.episodes.end()

    def judge(
        self, window: Window, seen: Callable[[], Collection[str]] | None, classes: ModuleClasses | None = None
    ) -> list[Event]:
        """Evaluate the rule, and return the findings that its verdict opens or closes.

        Args:
            classes: The classes of modules, as far as they are known.
        """
        verdict = self._evaluate(window)
        if verdict is None:
            return []
        self.judged_steps, self.judged_step = self.judged_steps + 1, window.step
        self._judged = (window.step, window.time_ns, window.global_step)
        return self._take(verdict, window, seen, classes)

    def conclude(self, classes: ModuleClasses) -> list[Event]:
        """Return the finding of a run that has ended, if the rule has one only now; see ``Rule.conclude``."""
        if self.memory is None or self.error is not None or self.episodes.is_open:
            return []
        verdict = self._guarded(lambda: self.rule.conclude(self.memory))
        if verdict is None:
            return []
        step, time_ns, global_step = self._judged
        return self._take(verdict, Window(step, "train", time_ns, global_step=global_step), None, classes)

    def _take(
        self,
        verdict: Verdict,
        window: Window,
        seen: Callable[[], Collection[str]] | None,
        classes: ModuleClasses | None,
    ) -> list[Event]:
        self.product = verdict.product or self.product
        self.tally.add(verdict)
        number = self.trainings.number(verdict.worker if isinstance(verdict, Fired) else None)
        phrased = partial(self._phrased, classes=classes)
        return self.episodes.apply(verdict, window, seen, training=number, phrased=phrased)

    def _phrased(self, verdict: Fired, classes: ModuleClasses | None) -> Fired:
        """Return the verdict with the training that it is about, and the advice in the framework's terms.

        The message of a built-in rule also names the classes of modules.
        """
        message, training = verdict.message, self.trainings.where(verdict.worker)
        if training:
            message = f"{message} ({training})"
        if classes is not None and type(self.rule).__module__.startswith(_BUILT_IN):
            message = classes.name(message, verdict.tensors)
        if self._frameworks is None:
            self._frameworks = frameworks_of_run(self._run)
        return replace(verdict, message=message, suggestion=in_terms_of(verdict.suggestion, self._frameworks))

    def _evaluate(self, window: Window) -> Verdict | None:
        """Return the verdict; None: the rule raised."""

        def evaluate() -> Verdict:
            window.memory = self.memory = self.rule.remember(self.memory, window)
            verdict = self.rule.evaluate(window)
            if not isinstance(verdict, Verdict):
                names = "Clear, Fired, Undecided or NotApplicable"
                raise TypeError(f"evaluate() must return {names}, not {type(verdict).__name__}")
            return verdict

        return self._guarded(evaluate)

    def _found(self) -> JsonObject:
        """Return what the rule has found of the current training beside its verdict."""
        if self.memory is None or self.error is not None:
            return self.product
        return self.product | (self._guarded(lambda: self.rule.summarize(self.memory)) or {})

    def _guarded(self, call: Callable[[], _T]) -> _T | None:
        """Return the result of a rule's code; None: it raised. The boundary "rule worker": it may raise anything."""
        try:
            return call()
        except (Exception, SystemExit) as error:  # noqa: BLE001
            self.error = describe_error(error)
            return None

    def is_idle_at(self, point: Point, *, is_settled: bool) -> bool:
        """Return whether no point with these layouts, in this mode, without arrays, has data for the rule.

        Args:
            is_settled: See ``View.can_select``.
        """
        return not self.view.can_select(point, is_settled=is_settled) and self.coverage.is_empty(point)

    def state(self, models: ModelKind | None = None, last_step: int = -1) -> RuleTrackState:
        """Return the state as plain JSON values.

        Args:
            models: What the run trains; None: not known.
            last_step: The last train step of the run so far; -1: none.
        """
        models = models or ModelKind()
        verdict, why = self._verdict(models)
        product = self.trainings.product(self._found())
        return {
            "verdict": verdict,
            "why": why,
            "sampling": self.coverage.sampling(last_step),
            "judged_steps": self.judged_steps,
            "judged_step": self.judged_step,
            "findings": self.episodes.count,
            "error": self.error,
            "product": in_terms_of(product, self._frameworks or PYTORCH),
        }

    def _verdict(self, models: ModelKind) -> tuple[str, str]:
        """Return the verdict on the run so far, and why there is no better one."""
        if self.episodes.count:
            return "fired", ""
        why = models.why_not_applicable(self.needs.tensors)
        if why:
            return "not_applicable", why
        unseen = missing(self.needs, self.coverage, is_of_trees=models.are_trees)
        verdict, why = self.trainings.result(self.tally, self.rule.least_observations, unseen)
        absent = [name for name in self.coverage.missing() if not (models.are_trees and is_network_collection(name))]
        if verdict == "clear" and absent:
            verdict, why = "undecided", self.coverage.why_missing(absent[0])
        unrecorded = why_unrecorded(self.needs.tensors, models.framework) if verdict == "undecided" else ""
        return ("not_applicable", unrecorded) if unrecorded else (verdict, why)


def is_scan_time(needs: Needs, scan: Scan) -> bool:
    """Return whether a rule that scans less often than every second is evaluated at a scan."""
    seconds = max(1, round(needs.scan_seconds or 1.0))
    return scan.is_last or (scan.time_ns - scan.started_ns) // 1_000_000_000 % seconds == 0


def describe_error(error: BaseException) -> str:
    """Return an exception in one line: its type, message, and the line of the rule that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith(os.path.dirname(__file__))]
    where = f" ({os.path.basename(theirs[-1].filename)}:{theirs[-1].lineno})" if theirs else ""
    message = " ".join(scrub(str(error)).split())
    if isinstance(error, MemoryError):
        message = "it exceeded the memory limit for rules"
    return f"{type(error).__name__}: {message}{where}" if message else f"{type(error).__name__}{where}"
