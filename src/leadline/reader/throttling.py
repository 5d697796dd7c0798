"""Throttled captures of a run, and the rules that they affect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from leadline.records.decoding import Document
from leadline.records.formatting import listed
from leadline.records.needs import TensorNeed
from leadline.records.plan import Schedule

THROTTLED_EVENT: Final = "capture_thinned"
"""The name of the event in the timeline."""


@dataclass(frozen=True, slots=True)
class ThrottledItem(Document):
    """A capture item that was throttled to stay within the overhead budget, in its current state."""

    collection: str | None = None
    regexes: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()
    raw: bool = False
    mode: str = "train"
    sources: tuple[str, ...] = ()
    """The sources of the requests: ``preset``, ``rule:<name>``."""
    from_every: int | None = None
    """The planned interval in steps of the mode; None: in seconds."""
    to_every: int | None = None
    from_seconds: float | None = None
    to_seconds: float | None = None
    start: int = 0
    end: int | None = None
    since_step: int = 0
    until_step: int | None = None
    """The step from which it is captured as planned again."""


@dataclass(frozen=True, slots=True)
class Throttling:
    """A capture item that was captured less often than requested, over some steps of a mode of a worker."""

    worker: str
    collection: str | None
    """None for tensors that are selected by regular expressions."""
    statistics: frozenset[str]
    raw: bool
    mode: str
    sources: frozenset[str]
    """The sources of the request: ``preset``, ``rule:<name>``."""
    requested: Schedule
    captured: Schedule
    since_step: int
    """The first step of the mode at which ``captured`` applies."""
    until_step: int | None = None
    """The first step at which it no longer applies; None if it still does."""

    @classmethod
    def of(cls, worker: str, item: ThrottledItem) -> Throttling:
        """Create a record from the details of an event."""
        requested = Schedule(item.from_every, item.from_seconds, item.start, item.end)
        return cls(
            worker=worker,
            collection=item.collection,
            statistics=frozenset(item.statistics),
            raw=item.raw,
            mode=item.mode,
            sources=frozenset(item.sources),
            requested=requested,
            captured=replace(requested, every=item.to_every, every_seconds=item.to_seconds),
            since_step=item.since_step,
        )

    @property
    def is_over(self) -> bool:
        """Whether the requested schedule is in effect again."""
        return self.requested == self.captured

    def covers(self, mode: str, mode_step: int) -> bool:
        """Return whether it applies to a step."""
        is_before_end = self.until_step is None or mode_step < self.until_step
        return mode == self.mode and self.since_step <= mode_step and is_before_end

    def is_missing_at(self, mode: str, mode_step: int) -> bool:
        """Return whether a requested step was not captured; always False for intervals in seconds."""
        was_skipped = self.requested.should_capture(mode_step) and not self.captured.should_capture(mode_step)
        return self.covers(mode, mode_step) and was_skipped

    def has_missed_by(self, mode: str, mode_step: int) -> bool:
        """Return whether any requested step up to ``mode_step`` was not captured."""
        if mode != self.mode or mode_step < self.since_step:
            return False
        last = mode_step if self.until_step is None else min(mode_step, self.until_step - 1)
        every = self.requested.every
        if every is None:
            return last > self.since_step
        first = max(-(-self.since_step // every), -(-self.requested.start // every)) * every
        # of two consecutive requested steps at least one is skipped, as the interval is at least doubled
        return any(self.is_missing_at(mode, step) for step in (first, first + every) if step <= last)

    def affects(self, need: TensorNeed) -> bool:
        """Return whether a rule with this need may miss something."""
        if need.modes and need.modes != ("global",) and self.mode not in need.modes:
            return False
        if not (self.statistics & frozenset(need.statistics) or (need.raw and self.raw)):
            return False
        anything = (None, "all")
        return need.collection in anything or self.collection in anything or need.collection == self.collection


class ThrottlingHistory:
    """All throttled captures of a run, as far as it was read.

    Args:
        planned: The sources of the items in the run's capture plan.
    """

    def __init__(self, planned: frozenset[str]) -> None:
        self.version = 0
        self._planned = planned
        self._all: list[Throttling] = []

    def add(self, worker: str, args: Mapping[str, Any]) -> None:
        """Add an event."""
        new = Throttling.of(worker, ThrottledItem.from_dict(args))
        for index, known in enumerate(self._all):
            if known.until_step is None and _item_key(known) == _item_key(new):
                self._all[index] = replace(known, until_step=new.since_step)
        if not new.is_over:
            self._all.append(new)
        self.version += 1

    def affecting(self, alias: str, needs: Iterable[TensorNeed]) -> tuple[Throttling, ...]:
        """Return the throttled captures that a rule needs.

        A rule of the capture plan is affected if its own capture items were throttled; a rule that is evaluated
        afterwards, if what it needs was throttled at the preset's interval.
        """
        needs = tuple(needs)
        rule_source = f"rule:{alias}"
        source = rule_source if rule_source in self._planned else "preset"
        return tuple(item for item in self._all if source in item.sources and any(map(item.affects, needs)))


def _item_key(item: Throttling) -> tuple[Any, ...]:
    return item.worker, item.collection, item.statistics, item.raw, item.mode, item.sources, item.requested


def why_undecided(throttling: Iterable[Throttling]) -> str:
    """Return why a clear rule is undecided: what was throttled, in one line; empty if nothing was."""
    items = sorted(throttling, key=lambda item: item.since_step)
    if not items:
        return ""
    widest = max(items, key=_factor)
    names = list(dict.fromkeys(item.collection or "tensors" for item in items))
    first = items[0].since_step
    return (
        f"{listed(names)} throttled since step {first:,} to stay within the overhead budget: {_interval(widest)}; "
        "--budget off disables throttling"
    )


def _factor(item: Throttling) -> float:
    requested, captured = item.requested, item.captured
    if requested.every is not None and captured.every is not None:
        return captured.every / requested.every
    return (captured.every_seconds or 1.0) / (requested.every_seconds or 1.0)


def _interval(item: Throttling) -> str:
    requested, captured = item.requested, item.captured
    if captured.every is not None:
        expected = "step" if requested.every == 1 else f"{requested.every:,}"
        return f"every {captured.every:,} steps instead of every {expected}"
    return f"every {captured.every_seconds:g} s instead of every {requested.every_seconds:g} s"
