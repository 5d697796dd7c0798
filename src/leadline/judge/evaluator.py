"""Showing rules a run's stream, step after step, and keeping what they say of it."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from leadline.errors import LeadlineError
from leadline.judge.episodes import Episodes, Event
from leadline.judge.model_kind import ModelKind, is_of_networks
from leadline.reader.feed import NEVER, Feed
from leadline.reader.find_runs import find_run
from leadline.reader.interval import Interval
from leadline.reader.other_run import OtherRun
from leadline.reader.throttling import Throttling, ThrottlingHistory, format_throttling
from leadline.reader.timegrid import TimeGrid
from leadline.reader.view import Point, View
from leadline.reader.window import Scan, Window
from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.statistics.definitions import is_vector

_CLOCK_EVERY: Final = 16
"""Points between two looks at the clock, when the time for one answer is limited."""


@dataclass(slots=True)
class EvaluationProgress:
    """What came of some judging, as it goes from a rule worker to the judge: plain JSON values inside."""

    rules: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By alias: ``RuleTrack.state()``, of the rules that were judged."""
    events: list[tuple[str, Event]] = field(default_factory=list)
    """What opened and closed, by alias, in order."""
    begun_again: list[str] = field(default_factory=list)
    """Aliases of rules of which all is told again from the start."""
    judged_step: int = -1
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    """For each worker the last step that is known of, and its time."""
    damage: list[str] = field(default_factory=list)
    has_more: bool = False
    """Whether there is more to judge at once."""


class RuleTrack:
    """One rule on its way through a run."""

    def __init__(self, alias: str, rule: Rule, run: str) -> None:
        self.alias, self.rule = alias, rule
        self.error: str | None = None
        self.needs: Needs = rule.needs()
        self._run = run
        self.begin()

    @property
    def is_of_time(self) -> bool:
        return self.needs.scan_seconds is not None

    @property
    def needs_arrays(self) -> bool:
        return any(need.raw or any(map(is_vector, need.statistics)) for need in self.needs.tensors)

    def begin(self) -> None:
        """Forget what was judged."""
        self.view = View(self.needs.tensors)
        self.episodes = Episodes(self.alias)
        self.judged_steps = self.clear_steps = 0
        self.why = ""
        self.missed: dict[Throttling, None] = {}
        self._concerned: tuple[Throttling, ...] = ()
        self._thinnings_version = 0
        self.memory: Any = None
        self.product: dict[str, Any] = {}
        self._interval = Interval()
        self.others = self._open_others()

    def _open_others(self) -> dict[str, OtherRun]:
        """The runs that are compared with; names are looked up where the run itself lies."""
        root = os.path.dirname(os.path.abspath(self._run))
        needs, with_arrays = self.needs.tensors, self.needs_arrays
        try:
            return {name: OtherRun(find_run(name, root), needs, with_arrays=with_arrays) for name in self.needs.runs}
        except LeadlineError as error:
            self.error = str(error)
            return {}

    def beside(self, point: Point) -> dict[str, Window]:
        """What the other runs have at a point, by name."""
        found = {name: other.window(point) for name, other in self.others.items()}
        return {name: window for name, window in found.items() if window is not None}

    def miss(self, point: Point, thinnings: ThrottlingHistory) -> bool:
        """Whether the overhead budget left out something that the rule needs of a point; kept for the verdict."""
        if not thinnings.version or not point.rows:
            return False
        if self._thinnings_version != thinnings.version:
            self._thinnings_version = thinnings.version
            self._concerned = thinnings.concerning(self.alias, self.needs.tensors)
        mode_step = max(row.mode_step for row in point.rows)
        self.missed |= dict.fromkeys(each for each in self._concerned if each.has_missed_by(point.mode, mode_step))
        return any(each.is_missing_at(point.mode, mode_step) for each in self._concerned)

    def at_moment(self, scan: Scan) -> Window | None:
        """What it is shown of a moment, with all that came since the last; None: it scans less often."""
        self._interval.extend(scan.interval, self.needs)
        if not _is_due(self.needs, scan):
            return None
        interval, self._interval = self._interval, Interval()
        return Window(scan.last_step, "train", scan.time_ns, scan=replace(scan, interval=interval))

    def judge(self, window: Window, seen: Callable[[], Collection[str]] | None) -> list[Event]:
        """Ask the rule, and turn its verdict into what opens and closes."""
        verdict = self._evaluate(window)
        if verdict is None:
            return []
        self.judged_steps += 1
        self.product = verdict.product or self.product
        match verdict:
            case Clear():
                self.clear_steps += 1
            case Undecided():
                self.why = verdict.why
        return self.episodes.apply(verdict, window.step, window.mode, window.time_ns, seen)

    def _evaluate(self, window: Window) -> Verdict | None:
        """The verdict; None where the rule raised. The boundary "rule worker": a stranger's code may do anything."""
        try:
            window.memory = self.memory = self.rule.remember(self.memory, window)
            verdict = self.rule.evaluate(window)
            if not isinstance(verdict, (Clear, Fired, Undecided)):
                raise TypeError(f"evaluate() must return Clear, Fired or Undecided, not {type(verdict).__name__}")
        except (Exception, SystemExit) as error:  # noqa: BLE001
            self.error = describe_error(error)
            return None
        return verdict

    def state(self, *, is_of_trees: bool = False) -> dict[str, Any]:
        """Where it stands: ``verdict``, ``why``, ``judged_steps``, ``findings``, ``error``, ``product``.

        Args:
            is_of_trees: Whether what trains is a booster, and no network.
        """
        if self.episodes.count:
            verdict, why = "fired", ""
        elif self.missed:
            verdict, why = "undecided", format_throttling(self.missed)
        elif self.clear_steps:
            verdict, why = "clear", ""
        else:
            verdict, why = "undecided", self.why or missing(self.needs, is_of_trees=is_of_trees)
        return {
            "verdict": verdict,
            "why": why,
            "judged_steps": self.judged_steps,
            "findings": self.episodes.count,
            "error": self.error,
            "product": self.product,
        }


class _Lane:
    """Rules that go through the stream together.

    Those that need arrays have one of their own: arrays come later than the numbers of their step, and nobody else
    should wait for them. So does each that needs other runs: it waits for those.
    """

    def __init__(self, run: str, tracks: list[RuleTrack], grid: TimeGrid) -> None:
        self.tracks = tracks
        self._run, self._with_arrays = run, any(track.needs_arrays for track in tracks)
        self._is_over = False
        self.feed = Feed(run, grid, with_arrays=self._with_arrays)

    def refresh(self, *, is_over: bool, gone: Collection[str]) -> bool:
        """Read what came; whether all must be judged again."""
        self._is_over = is_over
        self.feed.refresh(is_over=is_over, gone=gone)
        for other in self._others():
            other.refresh()
        if not self.feed.is_overtaken:
            return False
        self.feed = Feed(self._run, self.feed.grid, with_arrays=self._with_arrays)
        self.feed.refresh(is_over=is_over, gone=gone)
        return True

    def points(self) -> Iterator[Point]:
        """The steps that can be judged; other runs are not waited for when this one is over."""
        limit = NEVER if self._is_over else min((each.horizon for each in self._others()), default=NEVER)
        return self.feed.points(limit)

    def _others(self) -> list[OtherRun]:
        return [other for track in self.tracks for other in track.others.values()]


class Evaluator:
    """All rules of one process on their way through a run.

    Args:
        run: The run's folder.
        rules: Aliases and rules.
        started_ns: When the run started.
        mark: Told the alias of the rule that is being asked ("" when none is), so that somebody else can tell
            which one hangs.
        is_over: Nobody writes the run any more: no rule would wait for what another needs, and so the stream is read
            once for all of them.
    """

    def __init__(
        self,
        run: str,
        rules: Iterable[tuple[str, Rule]],
        *,
        started_ns: int,
        mark: Callable[[str], None] | None = None,
        is_over: bool = False,
    ) -> None:
        self._mark = mark or (lambda alias: None)
        self._models = ModelKind()
        self._tracks = [RuleTrack(alias, rule, run) for alias, rule in rules]
        self._dirty = {track.alias for track in self._tracks}
        self._grid = TimeGrid(started_ns, run, [track.needs for track in self._tracks if track.is_of_time])
        alone = [[track] for track in self._tracks if track.needs.runs]
        together = [track for track in self._tracks if not track.needs.runs]
        arrays = [track for track in together if track.needs_arrays and not is_over]
        others = [track for track in together if track not in arrays]
        self._lanes = [_Lane(run, each, self._grid) for each in (others, arrays, *alone) if each]

    def advance(
        self, *, is_over: bool = False, gone: Collection[str] = (), most_seconds: float = float("inf")
    ) -> EvaluationProgress:
        """Judge what came.

        Args:
            is_over: Nobody writes the run any more, and nobody did when this call began.
            gone: Workers of which the same is known.
            most_seconds: After so long what is done is told, and the rest left for the next call.
        """
        progress = EvaluationProgress()
        until = time.monotonic() + most_seconds
        self._grid.refresh(is_over=is_over, gone=gone)
        for lane in self._lanes:
            if lane.refresh(is_over=is_over, gone=gone):
                self._begin_again([track for track in lane.tracks if not track.is_of_time], progress)
        if self._grid.is_overtaken:
            self._begin_again([track for track in self._tracks if track.is_of_time], progress)
            self._grid.restart()
        is_done = [self._judge_points(lane, progress, until) for lane in self._lanes]
        progress.has_more = not (all(is_done) and self._judge_scans(progress, until))
        for lane in self._lanes[:1]:
            progress.judged_step, progress.seen = lane.feed.judged_step, dict(lane.feed.seen)
            progress.damage = [*lane.feed.damage, *(each for each in self._grid.damage if each not in lane.feed.damage)]
        progress.rules = {
            track.alias: track.state(is_of_trees=self._models.are_trees)
            for track in self._tracks
            if track.alias in self._dirty
        }
        self._dirty.clear()
        return progress

    def _begin_again(self, tracks: Iterable[RuleTrack], progress: EvaluationProgress) -> None:
        for track in tracks:
            if track.error is None:
                track.begin()
                progress.begun_again.append(track.alias)
                self._dirty.add(track.alias)

    def _judge_points(self, lane: _Lane, progress: EvaluationProgress, until: float) -> bool:
        """Judge the steps that are whole; whether all were before ``until``."""
        for count, point in enumerate(lane.points()):
            if self._models.meet(point):
                self._dirty.update(track.alias for track in self._tracks)
            for track in lane.tracks:
                if not track.is_of_time:
                    self._judge_point(track, point, lane.feed.thinnings, progress)
            if count % _CLOCK_EVERY == _CLOCK_EVERY - 1 and time.monotonic() > until:
                return False
        return True

    def _judge_point(
        self, track: RuleTrack, point: Point, thinnings: ThrottlingHistory, progress: EvaluationProgress
    ) -> None:
        known = len(track.missed)
        is_missing = track.miss(point, thinnings)
        if len(track.missed) > known:
            self._dirty.add(track.alias)
        window = track.view.show(point)
        if window is None or track.error is not None:
            return
        window.is_thinned = window.is_thinned or is_missing
        window.others = track.beside(point)
        self._ask(track, window, track.view.names, progress)
        track.view.keep()

    def _judge_scans(self, progress: EvaluationProgress, until: float) -> bool:
        tracks = [track for track in self._tracks if track.is_of_time]
        if not tracks:
            return True
        for count, scan in enumerate(self._grid.scans()):
            for track in tracks:
                window = track.at_moment(scan) if track.error is None else None
                if window is not None:
                    self._ask(track, window, None, progress)
            if count % _CLOCK_EVERY == _CLOCK_EVERY - 1 and time.monotonic() > until:
                return False
        return True

    def _ask(
        self, track: RuleTrack, window: Window, seen: Callable[[], Collection[str]] | None, progress: EvaluationProgress
    ) -> None:
        self._mark(track.alias)
        events = track.judge(window, seen)
        self._mark("")
        self._dirty.add(track.alias)
        progress.events += [(track.alias, event) for event in events]


def _is_due(needs: Needs, scan: Scan) -> bool:
    """Whether a moment lies on the coarser grid of a rule that scans less often than every second."""
    seconds = max(1, round(needs.scan_seconds or 1.0))
    return (scan.time_ns - scan.started_ns) // 1_000_000_000 % seconds == 0


def missing(needs: Needs, *, is_of_trees: bool = False) -> str:
    """Why a rule that saw nothing could not decide.

    Args:
        is_of_trees: Whether what trains is a booster, and no network.
    """
    if is_of_trees and needs.tensors and is_of_networks(needs.tensors[0].collection):
        return "boosted trees have no gradients, weights or layers"
    if is_of_trees and needs.tensors and needs.tensors[0].collection == "labels" and not needs.tensors[0].raw:
        return "no labels that are classes were captured; those of a regression or ranking are none"
    if needs.metrics:
        return "the machine was not sampled for long enough"
    if needs.scan_seconds is not None:
        return "no step was seen"
    wanted = [f"no {need.collection} were captured" for need in needs.tensors if need.collection not in (None, "all")]
    if wanted:
        return wanted[0]
    if any(need.collection == "all" for need in needs.tensors):
        return "nothing was captured"
    return f"nothing whose name matches {needs.tensors[0].regex!r} was captured"


def describe_error(error: BaseException) -> str:
    """An exception in one line: its type, message, and the line of the rule that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = os.path.dirname(os.path.abspath(__file__))
    theirs = [frame for frame in frames if not frame.filename.startswith(ours)]
    where = f" ({os.path.basename(theirs[-1].filename)}:{theirs[-1].lineno})" if theirs else ""
    message = " ".join(str(error).split())
    if isinstance(error, MemoryError):
        message = "it wanted more memory than rules may take"
    return f"{type(error).__name__}: {message}{where}" if message else f"{type(error).__name__}{where}"


def to_message(progress: EvaluationProgress) -> dict[str, Any]:
    """As plain JSON values."""
    return {each.name: getattr(progress, each.name) for each in fields(progress)}
