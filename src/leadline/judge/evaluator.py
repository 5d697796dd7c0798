"""Evaluation of rules on the stream of a run, step by step."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from leadline.analysis.advice import label_of_run
from leadline.judge.coverage import last_train_step
from leadline.judge.episodes import Event
from leadline.judge.model_kind import ModelKind
from leadline.judge.module_classes import ModuleClasses
from leadline.judge.rule_track import RuleTrack
from leadline.judge.worker_messages import EvaluationAnswer, RuleTrackState
from leadline.reader.feed import MAX_STEP, Feed, OtherRun
from leadline.reader.point import Point
from leadline.reader.stream import SharedStreams
from leadline.reader.timegrid import TimeGrid
from leadline.reader.window import Window
from leadline.records.plan import CaptureItem, CapturePlan
from leadline.records.recorded_facts import recorded_framework
from leadline.records.series import SeriesLayout
from leadline.rules.rule import Rule
from leadline.store import layout
from leadline.store.documents import read_document

_PointKey = tuple[str, bool, tuple[int, ...]]
"""The mode of a point, whether the first steps of the training are over, and the identities of its layouts."""
_CLOCK_EVERY: Final = 16
"""The number of points between two readings of the clock, when the time for one answer is limited."""


@dataclass(slots=True)
class EvaluationProgress:
    """The progress of an evaluation, as a rule worker reports it to the judge; contains plain JSON values."""

    rules: dict[str, RuleTrackState] = field(default_factory=dict)
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
        self._of_steps = [track for track in tracks if not track.is_of_time]
        self._interested: dict[_PointKey, tuple[list[SeriesLayout], list[RuleTrack]]] = {}
        """The layouts of points, kept alive for their identity, and the rules that may find data there."""
        self._first_steps = max((need.end or 0 for track in tracks for need in track.needs.tensors), default=0)
        self._begun = 0

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
        self._interested.clear()
        self._begun = 0
        return True

    def points(self) -> Iterator[Point]:
        """Return the steps that can be evaluated; a run that is over does not wait for the other runs."""
        limit = MAX_STEP if self._is_over else min((other.horizon for other in self._others()), default=MAX_STEP)
        return self.feed.points(limit)

    def tracks_at(self, point: Point) -> Sequence[RuleTrack]:
        """Return the rules for which a point may have data; it is most of the work to find that few have any.

        A rule without data in the layouts of a point has none in later points of these layouts either.
        """
        if point.begins:
            self._begun = point.train_step + 1
        if point.arrays or point.begins:
            return self._of_steps
        is_settled = point.first_step - self._begun >= self._first_steps
        key: _PointKey = (point.mode, is_settled, tuple(id(group.layout) for group in point.groups))
        known = self._interested.get(key)
        if known is None:
            interested = [track for track in self._of_steps if not track.is_idle_at(point, is_settled=is_settled)]
            self._interested[key] = ([group.layout for group in point.groups], interested)
            return self._of_steps
        return known[1]

    def remove(self, aliases: Collection[str]) -> None:
        """Evaluate some rules no longer."""
        self.tracks = [track for track in self.tracks if track.alias not in aliases]
        self._of_steps = [track for track in self._of_steps if track.alias not in aliases]
        self._interested.clear()

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
        self._mark, self._run = mark or (lambda alias, step: None), run
        self._models = ModelKind()
        self._last_step = -1
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
            self._conclude(progress)
        for group in self._groups[:1]:
            progress.judged_step, progress.seen = group.feed.judged_step, dict(group.feed.seen)
            damage = [line for line in self._grid.damage if line not in group.feed.damage]
            progress.damage = [*group.feed.damage, *damage]
        if self._dirty:
            self._models.framework = recorded_framework(label_of_run(self._run))
        progress.rules = {
            track.alias: track.state(self._models, self._last_step)
            for track in self._tracks
            if track.alias in self._dirty
        }
        self._dirty.clear()
        return progress

    def _conclude(self, progress: EvaluationProgress) -> None:
        """Add the findings that rules have only at the end of a run."""
        for group in self._groups:
            for track in group.tracks:
                self._mark(track.alias, self._last_step)
                progress.events += [(track.alias, event) for event in track.conclude(group.classes)]
        self._mark("", -1)

    def remove(self, aliases: Collection[str]) -> None:
        """Evaluate some rules no longer; the stream is still read for the others."""
        self._tracks = [track for track in self._tracks if track.alias not in aliases]
        self._dirty.difference_update(aliases)
        for group in self._groups:
            group.remove(aliases)

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
            self._last_step = max(self._last_step, last_train_step(point))
            for track in group.tracks_at(point):
                self._judge_point(track, point, group.classes, progress)
            if count % _CLOCK_EVERY == _CLOCK_EVERY - 1 and time.monotonic() > until:
                return False
        return True

    def _judge_point(
        self, track: RuleTrack, point: Point, classes: ModuleClasses, progress: EvaluationProgress
    ) -> None:
        if point.begins:
            progress.events += [(track.alias, event) for event in track.begin_training(point)]
        window = track.view.select(point)
        track.coverage.add(point, has_window=window is not None)
        if window is None or track.error is not None:
            return
        if track.others:
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


def to_message(progress: EvaluationProgress) -> EvaluationAnswer:
    """Return the progress as plain JSON values."""
    return {
        "rules": progress.rules,
        "events": progress.events,
        "restarted": progress.restarted,
        "judged_step": progress.judged_step,
        "seen": progress.seen,
        "damage": progress.damage,
        "has_more": progress.has_more,
    }
