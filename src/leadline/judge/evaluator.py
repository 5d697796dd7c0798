"""Evaluation of rules on the stream of a run, step by step."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from leadline.config.secrets import scrub
from leadline.errors import LeadlineError
from leadline.judge.advice import in_terms_of, library_of_run
from leadline.judge.coverage import Coverage, missing
from leadline.judge.episodes import Episodes, Event
from leadline.judge.model_kind import ModelKind, is_network_collection
from leadline.judge.module_classes import ModuleClasses
from leadline.reader.feed import MAX_STEP, Feed, OtherRun
from leadline.reader.find_runs import find_run
from leadline.reader.interval import Interval
from leadline.reader.point import Point
from leadline.reader.stream import SharedStreams
from leadline.reader.timegrid import TimeGrid
from leadline.reader.view import View
from leadline.reader.window import Scan, Window
from leadline.records.needs import Needs
from leadline.records.plan import CaptureItem, CapturePlan
from leadline.records.verdict import Fired, Verdict, VerdictTally
from leadline.rules.rule import Rule
from leadline.statistics.definitions import is_vector
from leadline.store import layout
from leadline.store.documents import read_document

_BUILT_IN: Final = "leadline.rules."
_CLOCK_EVERY: Final = 16
"""The number of points between two readings of the clock, when the time for one answer is limited."""


@dataclass(slots=True)
class EvaluationProgress:
    """The progress of an evaluation, as a rule worker reports it to the judge; contains plain JSON values."""

    rules: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By alias: ``RuleTrack.state()`` of the rules that were evaluated."""
    events: list[tuple[str, Event]] = field(default_factory=list)
    """The findings that opened and closed, by alias, in order."""
    restarted: list[str] = field(default_factory=list)
    """The aliases of rules that were evaluated again from the start."""
    judged_step: int = -1
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    """For each worker its last known step, and the time of that step."""
    damage: list[str] = field(default_factory=list)
    has_more: bool = False
    """Whether more can be evaluated at once."""


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
        self.episodes = Episodes(self.alias)
        self.judged_steps, self.judged_step = 0, -1
        self.tally = VerdictTally()
        self.coverage = Coverage(self.alias, self.needs.tensors, self._plan)
        self.memory: Any = None
        self.product: dict[str, Any] = {}
        self._interval = Interval()
        self._library: str | None = None
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
        if not _is_scan_time(self.needs, scan):
            return None
        interval, self._interval = self._interval, Interval()
        scan = replace(scan, interval=interval)
        return Window(scan.last_step, "train", scan.time_ns, global_step=scan.last_global_step, scan=scan)

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
        self.product = verdict.product or self.product
        self.tally.add(verdict)
        return self.episodes.apply(self._phrased(verdict, classes), window, seen)

    def _phrased(self, verdict: Verdict, classes: ModuleClasses | None) -> Verdict:
        """Return the verdict of a built-in rule with the classes of modules, and advice in the framework's terms."""
        if not isinstance(verdict, Fired) or not type(self.rule).__module__.startswith(_BUILT_IN):
            return verdict
        if self._library is None:
            self._library = library_of_run(self._run)
        message = classes.name(verdict.message, verdict.tensors) if classes is not None else verdict.message
        return replace(verdict, message=message, suggestion=in_terms_of(self._library, verdict.suggestion))

    def _evaluate(self, window: Window) -> Verdict | None:
        """Return the verdict; None: the rule raised. The boundary "rule worker": custom code may raise anything."""
        try:
            window.memory = self.memory = self.rule.remember(self.memory, window)
            verdict = self.rule.evaluate(window)
            if not isinstance(verdict, Verdict):
                names = "Clear, Fired, Undecided or NotApplicable"
                raise TypeError(f"evaluate() must return {names}, not {type(verdict).__name__}")
        except (Exception, SystemExit) as error:  # noqa: BLE001
            self.error = describe_error(error)
            return None
        return verdict

    def state(self, models: ModelKind | None = None) -> dict[str, Any]:
        """Return the state as plain JSON values.

        The keys are ``verdict``, ``why``, ``sampling``, ``judged_steps``, ``judged_step``, ``findings``, ``error``
        and ``product``.

        Args:
            models: What the run trains; None: not known.
        """
        models = models or ModelKind()
        verdict, why = self._verdict(models)
        return {
            "verdict": verdict,
            "why": why,
            "sampling": self.coverage.sampling(),
            "judged_steps": self.judged_steps,
            "judged_step": self.judged_step,
            "findings": self.episodes.count,
            "error": self.error,
            "product": self.product,
        }

    def _verdict(self, models: ModelKind) -> tuple[str, str]:
        """Return the verdict on the run so far, and why there is no better one."""
        if self.episodes.count:
            return "fired", ""
        why = models.why_not_applicable(self.needs.tensors)
        if why:
            return "not_applicable", why
        unseen = missing(self.needs, self.coverage, is_of_trees=models.are_trees)
        verdict, why = self.tally.result(self.rule.least_observations, unseen)
        absent = [name for name in self.coverage.missing() if not (models.are_trees and is_network_collection(name))]
        return ("undecided", self.coverage.why_missing(absent[0])) if verdict == "clear" and absent else (verdict, why)


class _RuleGroup:
    """Rules that read the stream together.

    Rules that need arrays form a group of their own: arrays arrive later than the numbers of their step, and other
    rules should not wait for them. So does every rule that compares with other runs, because it waits for those.
    """

    def __init__(self, run: str, tracks: list[RuleTrack], grid: TimeGrid, streams: SharedStreams, reader: int) -> None:
        self.tracks, self._streams, self._reader = tracks, streams, reader
        self._run, self._with_arrays = run, any(track.needs_arrays for track in tracks)
        self._is_over = False
        self.feed = Feed(run, grid, with_arrays=self._with_arrays, streams=streams, reader=reader)
        self.classes = ModuleClasses()

    def refresh(self, *, is_over: bool, gone: Collection[str]) -> bool:
        """Read new data; return whether everything must be evaluated again."""
        self._is_over = is_over
        self.feed.refresh(is_over=is_over, gone=gone)
        for other in self._others():
            other.refresh()
        if not self.feed.has_late_data:
            return False
        self._streams.leave(self._reader)  # it reads everything again, the others do not
        self.feed = Feed(self._run, self.feed.grid, with_arrays=self._with_arrays)
        self.classes = ModuleClasses()
        self.feed.refresh(is_over=is_over, gone=gone)
        return True

    def points(self) -> Iterator[Point]:
        """Return the steps that can be evaluated; a run that is over does not wait for the other runs."""
        limit = MAX_STEP if self._is_over else min((other.horizon for other in self._others()), default=MAX_STEP)
        return self.feed.points(limit)

    def _others(self) -> list[OtherRun]:
        return [other for track in self.tracks for other in track.others.values()]


class Evaluator:
    """Evaluates the rules of one process on a run.

    Args:
        run: The run directory.
        rules: Aliases and rules.
        started_ns: When the run started.
        mark: Called with the alias of the rule that is about to be evaluated and the step, and with "" and -1
            afterwards, so that another process can tell which rule hangs.
        is_over: Whether the run is complete. No rule would wait for data of another one then, and the stream is read
            once for all of them.
    """

    def __init__(
        self,
        run: str,
        rules: Iterable[tuple[str, Rule]],
        *,
        started_ns: int,
        mark: Callable[[str, int], None] | None = None,
        is_over: bool = False,
    ) -> None:
        self._mark = mark or (lambda alias, step: None)
        self._models = ModelKind()
        plan = _planned_items(run)
        self._tracks = [RuleTrack(alias, rule, run, plan) for alias, rule in rules]
        self._dirty = {track.alias for track in self._tracks}
        self._grid = TimeGrid(started_ns, run, [track.needs for track in self._tracks if track.is_of_time])
        alone = [[track] for track in self._tracks if track.needs.runs]
        together = [track for track in self._tracks if not track.needs.runs]
        arrays = [track for track in together if track.needs_arrays and not is_over]
        others = [track for track in together if track not in arrays]
        groups = [tracks for tracks in (others, arrays, *alone) if tracks]
        streams = SharedStreams(run, len(groups))
        self._groups = [_RuleGroup(run, tracks, self._grid, streams, at) for at, tracks in enumerate(groups)]

    def advance(
        self, *, is_over: bool = False, gone: Collection[str] = (), max_seconds: float = float("inf")
    ) -> EvaluationProgress:
        """Evaluate new data.

        Args:
            is_over: Whether the run was complete before this call.
            gone: Workers that had ended before this call.
            max_seconds: The time limit; what is not evaluated by then is left for the next call.
        """
        progress = EvaluationProgress()
        until = time.monotonic() + max_seconds
        self._grid.refresh(is_over=is_over, gone=gone)
        for group in self._groups:
            if group.refresh(is_over=is_over, gone=gone):
                self._restart([track for track in group.tracks if not track.is_of_time], progress)
        if self._grid.has_late_data:
            self._restart([track for track in self._tracks if track.is_of_time], progress)
            self._grid.restart()
        is_done = [self._judge_points(group, progress, until) for group in self._groups]
        progress.has_more = not (all(is_done) and self._judge_scans(progress, until))
        if is_over and not progress.has_more:  # how often a rule's data were captured also follows from later steps
            self._dirty.update(track.alias for track in self._tracks)
        for group in self._groups[:1]:
            progress.judged_step, progress.seen = group.feed.judged_step, dict(group.feed.seen)
            damage = [line for line in self._grid.damage if line not in group.feed.damage]
            progress.damage = [*group.feed.damage, *damage]
        progress.rules = {
            track.alias: track.state(self._models) for track in self._tracks if track.alias in self._dirty
        }
        self._dirty.clear()
        return progress

    def remove(self, aliases: Collection[str]) -> None:
        """Evaluate some rules no longer; the stream is still read for the others."""
        self._tracks = [track for track in self._tracks if track.alias not in aliases]
        self._dirty.difference_update(aliases)
        for group in self._groups:
            group.tracks = [track for track in group.tracks if track.alias not in aliases]

    def _restart(self, tracks: Iterable[RuleTrack], progress: EvaluationProgress) -> None:
        for track in tracks:
            if track.error is None:
                track.begin()
                progress.restarted.append(track.alias)
                self._dirty.add(track.alias)

    def _judge_points(self, group: _RuleGroup, progress: EvaluationProgress, until: float) -> bool:
        """Evaluate the complete steps; return whether that was done before ``until``."""
        for count, point in enumerate(group.points()):
            if self._models.update(point):
                self._dirty.update(track.alias for track in self._tracks)
            group.classes.update(point)
            for track in group.tracks:
                if not track.is_of_time:
                    self._judge_point(track, point, group.classes, progress)
            if count % _CLOCK_EVERY == _CLOCK_EVERY - 1 and time.monotonic() > until:
                return False
        return True

    def _judge_point(
        self, track: RuleTrack, point: Point, classes: ModuleClasses, progress: EvaluationProgress
    ) -> None:
        window = track.view.select(point)
        track.coverage.add(point, has_window=window is not None)
        if window is None or track.error is not None:
            return
        window.others = track.other_windows(point)
        self._ask(track, window, track.view.tensor_names, progress, classes)
        track.view.advance()

    def _judge_scans(self, progress: EvaluationProgress, until: float) -> bool:
        tracks = [track for track in self._tracks if track.is_of_time]
        if not tracks:
            return True
        for count, scan in enumerate(self._grid.scans()):
            for track in tracks:
                window = track.scan_window(scan) if track.error is None else None
                if window is not None:
                    self._ask(track, window, None, progress, None)
            if count % _CLOCK_EVERY == _CLOCK_EVERY - 1 and time.monotonic() > until:
                return False
        return True

    def _ask(
        self,
        track: RuleTrack,
        window: Window,
        seen: Callable[[], Collection[str]] | None,
        progress: EvaluationProgress,
        classes: ModuleClasses | None,
    ) -> None:
        self._mark(track.alias, window.step)
        events = track.judge(window, seen, classes)
        self._mark("", -1)
        self._dirty.add(track.alias)
        progress.events += [(track.alias, event) for event in events]


def _planned_items(run: str) -> tuple[CaptureItem, ...]:
    """Return the items of a run's capture plan."""
    manifest = read_document(os.path.join(run, layout.MANIFEST)) or {}
    return CapturePlan.from_dict(manifest.get("plan", {})).items


def _is_scan_time(needs: Needs, scan: Scan) -> bool:
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


def to_message(progress: EvaluationProgress) -> dict[str, Any]:
    """Return the progress as plain JSON values."""
    return {field.name: getattr(progress, field.name) for field in fields(progress)}
