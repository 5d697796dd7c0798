"""The overhead budget: throttles the captures of presets and rules to a share of the step time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from leadline.records.plan import CaptureItem, CapturePlan, Schedule
from leadline.training.recorder.overhead import CapturePrices, Part, StepOverhead
from leadline.training.recorder.throttle_groups import ThrottleGroup, divide

FREE_NS: Final = 200_000
"""Overhead that is always allowed per step; the budget applies above it."""
_MIN_SHARE: Final = 0.25
"""The share of the budget that throttled items always have, however much the others take."""
_MAX_FACTOR: Final = 1 << 12
_EXCESSIVE: Final = 4.0
"""At this multiple of the available time one sample is enough."""
_HEADROOM: Final = 0.7
"""An interval is shortened only if the total then stays within this share of the available time."""
_MIN_GAIN: Final = 0.05
"""Groups that take less of the available time than this are not throttled further: there is little to gain."""
_INITIAL_PATIENCE: Final = 16
_MIN_OWN_CAPTURES: Final = 2
_MAX_PATIENCE: Final = 1 << 12
_CHECK_EVERY: Final = 32
_TRIAL_CAPTURES: Final = 6
"""After this many captures without a separable price another group is throttled as a trial."""


@dataclass(frozen=True, slots=True)
class IntervalChange:
    """A change of a group's interval."""

    group: ThrottleGroup
    factor: int
    """The interval as a multiple of the planned one; 1: as planned."""
    since_step: int
    """The first step of the mode, from 0, at which it applies."""
    mode: str

    def events(self) -> list[dict[str, Any]]:
        """Return the arguments of the ``capture_thinned`` events, one dictionary per collection."""
        return [self._event(collection) for collection in self.group.collections]

    def _event(self, collection: str | None) -> dict[str, Any]:
        items = [item for item in self.group.items if item.collection == collection]
        schedule = self.group.schedule
        current = lengthened(schedule, self.factor)
        return {
            "collection": collection,
            "regexes": [item.regex for item in items if item.regex is not None],
            "statistics": sorted({name for item in items for name in item.statistics}),
            "raw": any(item.raw for item in items),
            "mode": self.mode,
            "sources": list(self.group.sources),
            "from_every": schedule.every,
            "to_every": current.every,
            "from_seconds": schedule.every_seconds,
            "to_seconds": current.every_seconds,
            "start": schedule.start,
            "end": schedule.end,
            "since_step": self.since_step,
        }


def lengthened(schedule: Schedule, factor: int) -> Schedule:
    """Return a schedule with ``factor`` times longer intervals; listed steps stay."""
    if factor == 1:
        return schedule
    return replace(
        schedule,
        every=None if schedule.every is None else schedule.every * factor,
        every_seconds=None if schedule.every_seconds is None else schedule.every_seconds * factor,
    )


@dataclass(slots=True)
class _Throttle:
    """The state of a throttled group."""

    factor: int = 1
    was_shortened: bool = False
    patience: int = _INITIAL_PATIENCE
    """Captures that must be measured before it is shortened; grows each time that it was shortened too early."""
    captures: int = 0
    """Captures of the group since its interval last changed."""

    def lengthen(self) -> None:
        """Double the interval; after an interval that was shortened too early, wait longer the next time."""
        if self.was_shortened:
            self.was_shortened = False
            self.patience = min(4 * self.patience, _MAX_PATIENCE)
        self.factor, self.captures = self.factor * 2, 0

    def shorten(self) -> None:
        """Halve the interval."""
        self.factor, self.captures, self.was_shortened = self.factor // 2, 0, True


class ModeBudget:
    """The budget of one mode. Its decisions depend on the measured times only.

    The limit is the larger of the share and ``FREE_NS`` per step. The base overhead of every step and the captures that
    are always kept are subtracted; captures of the user's options do not count. The remainder, at least a quarter of
    the limit, is for the throttled groups: while they are expected to take more, the interval of the most expensive
    one is doubled. If its price is not separable from that of others, it is doubled once, as a trial, and measured
    again. An interval is halved when there is enough headroom, after a patience that grows each time that this had to
    be undone.
    """

    def __init__(self, mode: str, groups: Sequence[ThrottleGroup], share: float) -> None:
        self._mode, self._groups, self._share = mode, tuple(groups), share
        self._throttles = {index: _Throttle() for index, group in enumerate(groups) if group.kind == "throttled"}
        self._prices = CapturePrices([sum(len(item.statistics) + item.raw for item in group.items) for group in groups])
        self._steps = StepOverhead()
        self._index = {id(item): index for index, group in enumerate(groups) for item in group.items}
        self._measured, self._check_at = 0, 1
        self._next_step = 0
        self._is_trial = False

    def factor(self, index: int) -> int:
        """Return the interval of a group as a multiple of the planned one."""
        return self._throttles[index].factor

    def end_step(
        self, next_step: int, duration_ns: int | None, *, own_ns: int, spent: Mapping[Part, tuple[frozenset[int], int]]
    ) -> list[IntervalChange]:
        """End a step; return the changes from the next step on.

        Args:
            next_step: The step of the mode that begins.
            duration_ns: From the end of the previous step; None if that was of another mode.
            own_ns: The overhead in it.
            spent: The captures by part: ids of the items, ns.
        """
        self._next_step = next_step
        if duration_ns is not None:
            captures_ns = sum(cost for _, cost in spent.values())
            self._steps.add(duration_ns, own_ns=own_ns, captures_ns=captures_ns)
        for part, (items, cost) in spent.items():
            known = frozenset(self._index[item] for item in items if item in self._index)
            if known and self._prices.add(part, known, cost):
                self._measured += 1
                for index in known & self._throttles.keys():
                    self._throttles[index].captures += 1
        if not self._throttles or self._measured < self._check_at or not self._steps.is_known:
            return []
        self._check_at = self._measured + min(self._measured, _CHECK_EVERY)
        changed = self._check()
        if changed:
            self._measured, self._check_at = 0, 1
        return [IntervalChange(self._groups[index], self.factor(index), next_step, self._mode) for index in changed]

    def _check(self) -> list[int]:
        shares = self._expected(self._prices.estimate())
        available = self._available(shares)
        throttled = {index: shares[index] for index in self._throttles if index in shares}
        min_samples = 1 if sum(throttled.values()) > _EXCESSIVE * available else 2
        known = {index: share for index, share in throttled.items() if self._prices.samples(index) >= min_samples}
        if sum(known.values()) > available:
            return self._lengthen(known, available)
        return self._shorten(available) if any(throttle.factor > 1 for throttle in self._throttles.values()) else []

    def _expected(self, prices: Mapping[int, float]) -> dict[int, float]:
        """Return the cost of each group per average step, in ns, at its current interval."""
        return {index: price * self._rate(index) for index, price in prices.items()}

    def _rate(self, index: int) -> float:
        """Return the captures of a group per average step."""
        throttle = self._throttles.get(index)
        schedule = lengthened(self._groups[index].schedule, throttle.factor if throttle else 1)
        if schedule.end is not None and schedule.end <= self._next_step:
            return 0.0
        rate = 1 / schedule.every if schedule.every is not None else 0.0
        if schedule.every_seconds is not None:
            rate += self._steps.plain_ns / 1e9 / schedule.every_seconds
        return min(rate, 1.0)

    def _available(self, shares: Mapping[int, float]) -> float:
        """Return the time per step that is left for throttled groups, in ns."""
        limit = max(self._share * self._steps.plain_ns, float(FREE_NS))
        kept = sum(share for index, share in shares.items() if self._groups[index].kind == "kept")
        return max(limit - self._steps.base_ns - kept, limit * _MIN_SHARE)

    def _lengthen(self, shares: dict[int, float], available: float) -> list[int]:
        """Double the interval of the most expensive group until all groups fit."""
        changed: dict[int, None] = {}
        while sum(shares.values()) > available:
            candidates = [index for index in shares if self._throttles[index].factor < _MAX_FACTOR]
            top = max(candidates, key=shares.__getitem__, default=None)
            if top is None or shares[top] < _MIN_GAIN * available:
                break
            is_separable = self._prices.is_separable(top)
            if not is_separable and self._is_trial and self._measured < _TRIAL_CAPTURES:
                break
            self._is_trial = not is_separable
            self._throttles[top].lengthen()
            shares[top] /= 2
            changed[top] = None
            if not is_separable:
                break
        return list(changed)

    def _shorten(self, available: float) -> list[int]:
        """Halve the interval of the cheapest group, if there is enough headroom even at high prices."""
        shares = self._expected(self._prices.estimate(is_cautious=True))
        shares = {index: shares[index] for index in self._throttles if index in shares}
        lengthened_groups = [index for index in shares if self._throttles[index].factor > 1]
        if not lengthened_groups:
            return []
        cheapest = min(lengthened_groups, key=shares.__getitem__)
        throttle = self._throttles[cheapest]
        is_patient = self._measured >= throttle.patience and throttle.captures >= _MIN_OWN_CAPTURES
        if not is_patient or sum(shares.values()) + shares[cheapest] > _HEADROOM * available:
            return []
        throttle.shorten()
        return [cheapest]


class Budget:
    """The budgets of a worker by mode, and the throttled schedules of the items.

    Without a budget the items are those of the plan, and nothing is measured.

    Attributes:
        items: The capture items; ``schedule`` gives the current interval of each.
        version: Incremented whenever an interval changes.
        throttled: Everything that was ever throttled in its current state: the latest event of each, with the
            ``since_step`` of the first, and ``until_step`` if it is captured as planned again.
    """

    def __init__(self, plan: CapturePlan, *, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        groups = divide(plan.items) if plan.budget is not None else ()
        self.items = tuple(item for group in groups for item in group.items) if groups else plan.items
        self.version = 0
        self.throttled: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._clock = clock
        self._schedules: dict[int, Schedule] = {}
        modes = dict.fromkeys(mode for group in groups for mode in group.modes)
        self._modes = {mode: self._mode_budget(mode, groups, plan.budget or 0.0) for mode in modes}
        self._spent: dict[Part, tuple[frozenset[int], int]] = {}
        self._last_end: tuple[str, int, int] | None = None

    @staticmethod
    def _mode_budget(mode: str, groups: Iterable[ThrottleGroup], share: float) -> ModeBudget:
        return ModeBudget(mode, [group for group in groups if mode in group.modes], share)

    def schedule(self, item: CaptureItem) -> Schedule:
        """Return the current schedule of an item."""
        return self._schedules.get(id(item), item.schedule)

    def begin_capture(self) -> int:
        """Begin a capture; return the time."""
        return self._clock()

    def end_capture(self, part: Part, items: Iterable[CaptureItem], begun_ns: int, *, more_ns: int = 0) -> int:
        """End a capture; return the time, at which the next may begin.

        Args:
            items: The captured items; those without anything of the part are ignored.
            begun_ns: The time that ``begin_capture`` returned.
            more_ns: Overhead before that.
        """
        now = self._clock()
        if self._modes:
            captured = frozenset(id(item) for item in items if _has(item, part))
            earlier, cost = self._spent.get(part, (frozenset(), 0))
            self._spent[part] = (earlier | captured, cost + now - begun_ns + more_ns)
        return now

    def end_step(self, mode: str, mode_step: int, own_ns: Callable[[int], int]) -> list[IntervalChange]:
        """End a step of a mode; return the changes from the next step on.

        Args:
            mode_step: The step that ended.
            own_ns: Returns the total overhead until a time.
        """
        if not self._modes:
            return []
        now = self._clock()
        own = own_ns(now)
        last, self._last_end = self._last_end, (mode, now, own)
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
            self._schedules[id(item)] = lengthened(item.schedule, change.factor)
        for event in change.events():
            key = (
                event["mode"],
                event["collection"],
                event["from_every"],
                event["from_seconds"],
                event["raw"],
                *event["statistics"],
            )
            since = self.throttled.get(key, event)["since_step"]
            until = change.since_step if change.factor == 1 else None
            self.throttled[key] = {**event, "since_step": since, "until_step": until}


def _has(item: CaptureItem, part: Part) -> bool:
    return item.raw if part == "raw" else part == "forward" or bool(item.statistics)
