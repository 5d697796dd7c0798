"""Coverage of a rule's needs: which of them were captured, and how often in comparison with the capture plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from leadline.reader.point import Point
from leadline.records import describe
from leadline.records.documents import WorkerDocument
from leadline.records.formatting import listed
from leadline.records.names import CHECKS
from leadline.records.needs import Needs, TensorNeed
from leadline.records.plan import CaptureItem, Schedule
from leadline.records.recorded_facts import RECORDED_CHECKS, checks_of
from leadline.records.series import SeriesLayout
from leadline.statistics.definitions import is_vector

_MIN_REQUESTED: Final = 4
"""Fewer requested captures say nothing about an interval."""
_TOLERANCE: Final = 1.5
"""Captures count as less frequent than requested if there are so many times fewer of them."""


class Coverage:
    """The captures of the collections that a rule cannot do without.

    Args:
        alias: The name of the rule in the run.
        needs: Its needs.
        plan: The capture items of the run.
    """

    def __init__(self, alias: str, needs: Iterable[TensorNeed], plan: Iterable[CaptureItem]) -> None:
        self._needs: dict[str, list[TensorNeed]] = {}
        for need in needs:
            if need.collection is not None and not need.is_optional:
                self._needs.setdefault(need.collection, []).append(need)
        self._seen: set[str] = set()
        self._schedules = {
            collection: _requested(alias, [need for need in collection_needs if need.end is None], plan)
            for collection, collection_needs in self._needs.items()
        }
        self._counts: dict[str, int] = {}
        self._layouts: dict[int, tuple[SeriesLayout, frozenset[str]]] = {}
        self._present: dict[int, SeriesLayout] = {}

    def add(self, point: Point, *, has_window: bool) -> None:
        """Count what was captured at a step.

        Args:
            has_window: Whether the rule is evaluated on the step.
        """
        mode_step = last_train_step(point)
        if len(self._seen) < len(self._needs):
            self._present.update((id(group.layout), group.layout) for group in point.groups)
        captured = self._captured(point) if len(self._needs) > 1 else set(self._needs) if has_window else set()
        self._seen.update(captured)
        for collection in captured if mode_step >= 0 else ():
            schedule = self._schedules[collection]
            if schedule is not None and mode_step > max(schedule.steps, default=-1):
                self._counts[collection] = self._counts.get(collection, 0) + 1

    def is_empty(self, point: Point) -> bool:
        """Return whether no point with these layouts has anything of the needed collections."""
        return not self._captured(point)

    def missing(self) -> Iterator[str]:
        """Yield the collections of which nothing was captured."""
        for collection, needs in self._needs.items():
            has_numbers = any(not is_vector(statistic) for need in needs for statistic in need.statistics)
            if collection not in self._seen and has_numbers:
                yield collection

    def why_missing(self, collection: str) -> str:
        """Return in words what is missing of a collection: all of it, or the statistics that the rule needs."""
        checks = checks_of(self._needs.get(collection, ()))
        if checks and collection == CHECKS:
            return f"nothing was recorded of {RECORDED_CHECKS[checks[0]][0]} in this run"
        captured = {
            statistic
            for layout in self._present.values()
            for index, statistic in layout.columns
            if collection in layout.tensors[index].collections
        }
        if not captured:
            return f"no {collection} were captured"
        needs = self._needs.get(collection, ())
        names = list(dict.fromkeys(statistic for need in needs for statistic in need.statistics))
        missing = [name for name in names if name not in captured]
        if not missing:
            return f"none of the {collection} that are needed was captured"
        return f"{collection} were captured, but without {listed(missing)}"

    def sampling(self, last_step: int) -> str:
        """Return how often the rarest collection was captured, after the first steps: ``sampled every 200 steps``.

        Empty if all of them were captured about as often as requested; what is needed up to a step only does not count.

        Args:
            last_step: The last train step of the run so far.
        """
        interval, worst = 0.0, _TOLERANCE
        for collection, schedule in self._schedules.items():
            if schedule is None or schedule.every is None:
                continue
            steps = last_step - max(*schedule.steps, schedule.start - 1, -1)
            requested, count = steps // schedule.every, max(1, self._counts.get(collection, 0))
            if requested >= _MIN_REQUESTED and requested / count >= worst:
                interval, worst = steps / count, requested / count
        return f"sampled every {float(f'{interval:.2g}'):,.0f} steps" if interval else ""

    def _captured(self, point: Point) -> set[str]:
        """Return the needed collections in the rows of a step, of any name."""
        captured: set[str] = set()
        for layout in (group.layout for group in point.groups):
            known = self._layouts.get(id(layout))
            if known is None:
                known = self._layouts[id(layout)] = (layout, frozenset(self._collections_of(layout)))
            captured |= known[1]
        return captured

    def _collections_of(self, layout: SeriesLayout) -> Iterator[str]:
        for collection, needs in self._needs.items():
            statistics = {statistic for need in needs for statistic in need.statistics}
            if any(
                statistic in statistics and (collection == "all" or collection in layout.tensors[index].collections)
                for index, statistic in layout.columns
            ):
                yield collection


def last_train_step(point: Point) -> int:
    """Return the last mode step of a point of training; -1: it has none."""
    return point.mode_steps[1] if point.mode == "train" and point.mode_steps else -1


def missing(needs: Needs, coverage: Coverage, *, is_of_trees: bool = False) -> str:
    """Return why a rule without any data is undecided.

    Args:
        coverage: What was captured of its needs.
        is_of_trees: Whether boosted trees are trained, and no network.
    """
    if is_of_trees and needs.tensors and needs.tensors[0].collection == "labels" and not needs.tensors[0].raw:
        return "no class labels were captured; those of a regression or ranking are not classes"
    if needs.metrics:
        return "not enough system metrics were sampled"
    if needs.scan_seconds is not None:
        return "no step was recorded"
    collections = [need.collection for need in needs.tensors if need.collection not in (None, "all")]
    required = [need.collection for need in needs.tensors if need.collection in collections and not need.is_optional]
    if required:
        return coverage.why_missing(required[0])
    if collections:
        first, *others = dict.fromkeys(map(str, collections))
        of_others = f", nor any of the {len(others):,} other collections that it can use," if others else ""
        return f"no {first}{of_others} were captured"
    if any(need.collection == "all" for need in needs.tensors):
        return "nothing was captured"
    return f"nothing whose name matches {needs.tensors[0].regex!r} was captured"


def missing_data(worker: WorkerDocument, needs: Sequence[TensorNeed], *, has_phases: bool = False) -> str:
    """Return why data that a rule needs is missing: it was dropped, or capture is disabled; empty: none is."""
    off, lost = worker.off, worker.lost
    if off and (needs or has_phases):
        return describe.ended_capture(off)
    if lost and ((lost.rows and (needs or has_phases)) or (lost.tensors and any(need.raw for need in needs))):
        return describe.dropped_data(lost)
    return ""


def _requested(alias: str, needs: Iterable[TensorNeed], plan: Iterable[CaptureItem]) -> Schedule | None:
    """Return the densest schedule at which the plan captures some needs of a rule in training; None: none by steps.

    A rule of the plan has items of its own; one that is evaluated afterwards uses those of the preset.
    """
    plan = tuple(plan)
    own = f"rule:{alias}"
    is_planned = any(item.source == own for item in plan)
    schedules = [
        item.schedule
        for item in plan
        if (item.source == own if is_planned else not item.source.startswith("rule:"))
        and "train" in item.modes
        and item.schedule.every is not None
        and item.schedule.end is None
        and any(_overlaps(item, need) for need in needs)
    ]
    return min(schedules, key=lambda schedule: schedule.every or 0, default=None)


def _overlaps(item: CaptureItem, need: TensorNeed) -> bool:
    is_same = item.collection == need.collection or "all" in (item.collection, need.collection)
    return is_same and bool(set(item.statistics) & set(need.statistics))
