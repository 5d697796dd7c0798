"""The overhead budget: widens what presets and rules ask until watching stays within its share of the step time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from leadline.records.plan import CaptureItem, CapturePlan, Schedule
from leadline.training.recorder.overhead import CapturePrices, Part, StepOverhead
from leadline.training.recorder.throttle_groups import ThrottleGroup, divide

FREE_NS: Final = 200_000
"""What watching may always take of a step: the budget counts only above it."""
_LEAST_PART: Final = 0.25
"""What of the budget thinnable wishes always have, however much the others take."""
_MOST_FACTOR: Final = 1 << 12
_GROSS: Final = 4.0
"""So many times too dear, and one sample is enough."""
_ROOM: Final = 0.7
"""An interval is narrowed only when this part of the budget would not be used up by it."""
_WORTH: Final = 0.05
"""What takes less of the budget than this is not widened: little would be won."""
_FIRST_PATIENCE: Final = 16
_OWN_PATIENCE: Final = 2
_MOST_PATIENCE: Final = 1 << 12
_CHECK_EVERY: Final = 32
_TRY_CAPTURES: Final = 6
"""After so many captures that told nothing apart the next is widened on suspicion."""


@dataclass(frozen=True, slots=True)
class IntervalChange:
    """A group's interval became wider, or narrower."""

    group: ThrottleGroup
    factor: int
    """How many times as wide as asked it is from now on; 1: as asked."""
    since_step: int
    """The first step of the mode, counted from 0, for which it holds."""
    mode: str

    def events(self) -> list[dict[str, Any]]:
        """What the timeline says, a dictionary for each collection: ``capture_thinned``."""
        return [self._event(collection) for collection in self.group.collections]

    def _event(self, collection: str | None) -> dict[str, Any]:
        items = [item for item in self.group.items if item.collection == collection]
        schedule = self.group.schedule
        wide = widened(schedule, self.factor)
        return {
            "collection": collection,
            "regexes": [item.regex for item in items if item.regex is not None],
            "statistics": sorted({name for item in items for name in item.statistics}),
            "raw": any(item.raw for item in items),
            "mode": self.mode,
            "sources": list(self.group.sources),
            "from_every": schedule.every,
            "to_every": wide.every,
            "from_seconds": schedule.every_seconds,
            "to_seconds": wide.every_seconds,
            "start": schedule.start,
            "end": schedule.end,
            "since_step": self.since_step,
        }


def widened(schedule: Schedule, factor: int) -> Schedule:
    """A schedule whose intervals are so many times as long; steps that are listed stay."""
    if factor == 1:
        return schedule
    return replace(
        schedule,
        every=None if schedule.every is None else schedule.every * factor,
        every_seconds=None if schedule.every_seconds is None else schedule.every_seconds * factor,
    )


@dataclass(slots=True)
class _Thinned:
    """Where a thinnable group stands."""

    factor: int = 1
    was_narrowed: bool = False
    patience: int = _FIRST_PATIENCE
    """Captures that must be measured before it is narrowed; more each time that it had been narrowed too soon."""
    captures: int = 0
    """Its own captures since its interval last changed."""

    def widen(self) -> None:
        """Double the interval; who had to be narrowed back in vain needs more patience the next time."""
        if self.was_narrowed:
            self.was_narrowed = False
            self.patience = min(4 * self.patience, _MOST_PATIENCE)
        self.factor, self.captures = self.factor * 2, 0

    def narrow(self) -> None:
        """Halve the interval."""
        self.factor, self.captures, self.was_narrowed = self.factor // 2, 0, True


class ModeBudget:
    """The budget of one mode: its steps, its wishes. A function of the times that it is told, and of nothing else.

    Allowed is the larger of the share and ``FREE_NS`` a step. Of it goes what we take at every step and what is
    always kept; what the user's options ask does not count. The rest, at least a quarter of all, is for the
    thinnable groups: while they are expected to take more, the dearest has its interval doubled; where its price is
    not told apart from that of others, once, and then it is looked what that has changed. An interval is halved
    again when there is ample room, and the more patiently the more often that had to be undone.
    """

    def __init__(self, mode: str, groups: Sequence[ThrottleGroup], share: float) -> None:
        self._mode, self._groups, self._share = mode, tuple(groups), share
        self._thinned = {index: _Thinned() for index, each in enumerate(groups) if each.kind == "thinnable"}
        self._prices = CapturePrices([sum(len(item.statistics) + item.raw for item in each.items) for each in groups])
        self._steps = StepOverhead()
        self._index = {id(item): index for index, each in enumerate(groups) for item in each.items}
        self._measured, self._check_at = 0, 1
        self._next_step = 0
        self._is_trying = False

    def factor(self, index: int) -> int:
        """How many times as wide as asked a group is captured."""
        return self._thinned[index].factor

    def end_step(
        self, next_step: int, duration_ns: int | None, *, own_ns: int, spent: Mapping[Part, tuple[frozenset[int], int]]
    ) -> list[IntervalChange]:
        """A step has ended; what changes with the next one.

        Args:
            next_step: The step of the mode that begins.
            duration_ns: From the end of the step before; None where that was one of another mode.
            own_ns: What of it was ours.
            spent: What was captured and what that took: ids of wishes, ns.
        """
        self._next_step = next_step
        if duration_ns is not None:
            captures_ns = sum(cost for _, cost in spent.values())
            self._steps.add(duration_ns, own_ns=own_ns, captures_ns=captures_ns)
        for part, (items, cost) in spent.items():
            known = frozenset(self._index[each] for each in items if each in self._index)
            if known and self._prices.add(part, known, cost):
                self._measured += 1
                for index in known & self._thinned.keys():
                    self._thinned[index].captures += 1
        if not self._thinned or self._measured < self._check_at or not self._steps.is_known:
            return []
        self._check_at = self._measured + min(self._measured, _CHECK_EVERY)
        changed = self._check()
        if changed:
            self._measured, self._check_at = 0, 1
        return [IntervalChange(self._groups[index], self.factor(index), next_step, self._mode) for index in changed]

    def _check(self) -> list[int]:
        shares = self._expected(self._prices.estimate())
        spare = self._spare(shares)
        own = {index: shares[index] for index in self._thinned if index in shares}
        needed = 1 if sum(own.values()) > _GROSS * spare else 2
        known = {index: each for index, each in own.items() if self._prices.samples(index) >= needed}
        if sum(known.values()) > spare:
            return self._widen(known, spare)
        return self._narrow(spare) if any(each.factor > 1 for each in self._thinned.values()) else []

    def _expected(self, prices: Mapping[int, float]) -> dict[int, float]:
        """What each group takes of an average step, in ns, as its interval now is."""
        return {index: price * self._rate(index) for index, price in prices.items()}

    def _rate(self, index: int) -> float:
        """How many captures of a group an average step has."""
        thinned = self._thinned.get(index)
        schedule = widened(self._groups[index].schedule, thinned.factor if thinned else 1)
        if schedule.end is not None and schedule.end <= self._next_step:
            return 0.0
        rate = 1 / schedule.every if schedule.every is not None else 0.0
        if schedule.every_seconds is not None:
            rate += self._steps.plain_ns / 1e9 / schedule.every_seconds
        return min(rate, 1.0)

    def _spare(self, shares: Mapping[int, float]) -> float:
        allowed = max(self._share * self._steps.plain_ns, float(FREE_NS))
        kept = sum(share for index, share in shares.items() if self._groups[index].kind == "kept")
        return max(allowed - self._steps.base_ns - kept, allowed * _LEAST_PART)

    def _widen(self, own: dict[int, float], spare: float) -> list[int]:
        """Double the dearest interval until all fit."""
        changed: dict[int, None] = {}
        while sum(own.values()) > spare:
            open_to = [index for index in own if self._thinned[index].factor < _MOST_FACTOR]
            dearest = max(open_to, key=own.__getitem__, default=None)
            if dearest is None or own[dearest] < _WORTH * spare:
                break
            is_told_apart = self._prices.is_told_apart(dearest)
            if not is_told_apart and self._is_trying and self._measured < _TRY_CAPTURES:
                break
            self._is_trying = not is_told_apart
            self._thinned[dearest].widen()
            own[dearest] /= 2
            changed[dearest] = None
            if not is_told_apart:
                break
        return list(changed)

    def _narrow(self, spare: float) -> list[int]:
        """Halve the cheapest interval that was widened, when there is room enough however dear things may be."""
        own = self._expected(self._prices.estimate(is_cautious=True))
        own = {index: own[index] for index in self._thinned if index in own}
        wide = [index for index in own if self._thinned[index].factor > 1]
        if not wide:
            return []
        cheapest = min(wide, key=own.__getitem__)
        thinned = self._thinned[cheapest]
        is_patient = self._measured >= thinned.patience and thinned.captures >= _OWN_PATIENCE
        if not is_patient or sum(own.values()) + own[cheapest] > _ROOM * spare:
            return []
        thinned.narrow()
        return [cheapest]


class Budget:
    """The budgets of a worker, a mode each, and the wishes as they are captured.

    Without a budget the wishes are the plan's, and nothing is measured.

    Attributes:
        items: What is to be captured; each thinnable wish at the interval that ``schedule`` says.
        version: Grows whenever an interval changes.
        thinned: What was ever thinned, as it now stands: the latest event of each with ``since_step`` of the first,
            and ``until_step`` where it is captured as asked again.
    """

    def __init__(self, plan: CapturePlan, *, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        groups = divide(plan.items) if plan.budget is not None else ()
        self.items = tuple(item for group in groups for item in group.items) if groups else plan.items
        self.version = 0
        self.thinned: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._clock = clock
        self._share = plan.budget
        self._schedules: dict[int, Schedule] = {}
        modes = dict.fromkeys(mode for group in groups for mode in group.modes)
        self._modes = {mode: self._mode_budget(mode, groups, plan.budget or 0.0) for mode in modes}
        self._spent: dict[Part, tuple[frozenset[int], int]] = {}
        self._last: tuple[str, int, int] | None = None

    @staticmethod
    def _mode_budget(mode: str, groups: Iterable[ThrottleGroup], share: float) -> ModeBudget:
        return ModeBudget(mode, [group for group in groups if mode in group.modes], share)

    def schedule(self, item: CaptureItem) -> Schedule:
        """When a wish is captured, as things stand."""
        return self._schedules.get(id(item), item.schedule)

    def begin(self) -> int:
        """A capture begins."""
        return self._clock()

    def end(self, part: Part, due: Iterable[CaptureItem], begun_ns: int, *, more_ns: int = 0) -> int:
        """The capture of some wishes has ended; when, so that the next may begin there.

        Args:
            due: The wishes; those that have nothing of the part are left out.
            begun_ns: What ``begin`` gave.
            more_ns: What it took before that.
        """
        now = self._clock()
        if self._modes:
            wished = frozenset(id(item) for item in due if _has(item, part))
            items, cost = self._spent.get(part, (frozenset(), 0))
            self._spent[part] = (items | wished, cost + now - begun_ns + more_ns)
        return now

    def end_step(self, mode: str, mode_step: int, own_ns: Callable[[int], int]) -> list[IntervalChange]:
        """A step of a mode has ended; what changes with the next one.

        Args:
            mode_step: The step that ended.
            own_ns: Tells what watching took in all until a moment of the clock.
        """
        if not self._modes:
            return []
        now = self._clock()
        own = own_ns(now)
        last, self._last = self._last, (mode, now, own)
        spent, self._spent = self._spent, {}
        budget = self._modes.get(mode)
        if budget is None:
            return []
        is_next = last is not None and last[0] == mode
        duration = now - last[1] if last is not None and is_next else None
        changes = budget.end_step(mode_step + 1, duration, own_ns=own - last[2] if last is not None else 0, spent=spent)
        for change in changes:
            self._apply(change)
        return changes

    def _apply(self, change: IntervalChange) -> None:
        self.version += 1
        for item in change.group.items:
            self._schedules[id(item)] = widened(item.schedule, change.factor)
        for event in change.events():
            key = (
                event["mode"],
                event["collection"],
                event["from_every"],
                event["from_seconds"],
                event["raw"],
                *event["statistics"],
            )
            since = self.thinned.get(key, event)["since_step"]
            until = change.since_step if change.factor == 1 else None
            self.thinned[key] = {**event, "since_step": since, "until_step": until}


def _has(item: CaptureItem, part: Part) -> bool:
    return item.raw if part == "raw" else part == "forward" or bool(item.statistics)
