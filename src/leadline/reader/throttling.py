"""What the overhead budget thinned, as the timeline tells it, and which rules that concerns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from leadline.records.needs import TensorNeed
from leadline.records.plan import Schedule

THINNED: Final = "capture_thinned"
"""The event's name."""


@dataclass(frozen=True, slots=True)
class Throttling:
    """Wishes of one collection, captured more seldom than asked over some steps of a mode of one worker."""

    worker: str
    collection: str | None
    """None: what regular expressions select."""
    statistics: frozenset[str]
    raw: bool
    mode: str
    sources: frozenset[str]
    """Who asked for it: ``preset``, ``rule:<name>``."""
    asked: Schedule
    captured: Schedule
    since_step: int
    """The first step of the mode at which ``captured`` holds."""
    until_step: int | None = None
    """The first at which it does not any more; None: it still does."""

    @property
    def is_over(self) -> bool:
        """Whether it says that all is captured as asked again."""
        return self.asked == self.captured

    def holds_at(self, mode: str, mode_step: int) -> bool:
        """Whether it covers a step."""
        is_before_end = self.until_step is None or mode_step < self.until_step
        return mode == self.mode and self.since_step <= mode_step and is_before_end

    def is_missing_at(self, mode: str, mode_step: int) -> bool:
        """Whether a step was asked for and left out; of seconds nobody can tell."""
        is_left_out = self.asked.is_due(mode_step) and not self.captured.is_due(mode_step)
        return self.holds_at(mode, mode_step) and is_left_out

    def has_missed_by(self, mode: str, mode_step: int) -> bool:
        """Whether some step was left out by then."""
        if mode != self.mode or mode_step < self.since_step:
            return False
        last = mode_step if self.until_step is None else min(mode_step, self.until_step - 1)
        every = self.asked.every
        if every is None:
            return last > self.since_step
        first = max(-(-self.since_step // every), -(-self.asked.start // every)) * every
        # of two asked steps in a row at least one is left out, since the interval is at least doubled
        return any(self.is_missing_at(mode, step) for step in (first, first + every) if step <= last)

    def concerns(self, need: TensorNeed) -> bool:
        """Whether what was thinned is, or may be, what a rule needs."""
        if need.modes and need.modes != ("global",) and self.mode not in need.modes:
            return False
        if not (self.statistics & frozenset(need.statistics) or (need.raw and self.raw)):
            return False
        anything = (None, "all")
        return need.collection in anything or self.collection in anything or need.collection == self.collection


class ThrottlingHistory:
    """All that was thinned in a run, as far as it was read.

    Args:
        planned: The sources of the run's capture plan: what a rule of the run needs, its own wishes tell.
    """

    def __init__(self, planned: frozenset[str]) -> None:
        self.version = 0
        self._planned = planned
        self._all: list[Throttling] = []

    def add(self, worker: str, args: Mapping[str, Any]) -> None:
        """Take in an event."""
        new = _read(worker, args)
        for at, each in enumerate(self._all):
            if each.until_step is None and _wish(each) == _wish(new):
                self._all[at] = replace(each, until_step=new.since_step)
        if not new.is_over:
            self._all.append(new)
        self.version += 1

    def concerning(self, alias: str, needs: Iterable[TensorNeed]) -> tuple[Throttling, ...]:
        """What was thinned of that which a rule needs.

        A rule that the run was planned with is concerned where its own wishes were thinned; another, that judges
        it afterwards, where what it needs was thinned at the preset's interval.
        """
        needs = tuple(needs)
        source = f"rule:{alias}"
        own = source if source in self._planned else "preset"
        return tuple(each for each in self._all if own in each.sources and any(map(each.concerns, needs)))


def _wish(thinning: Throttling) -> tuple[Any, ...]:
    each = thinning
    return each.worker, each.collection, each.statistics, each.raw, each.mode, each.sources, each.asked


def _read(worker: str, args: Mapping[str, Any]) -> Throttling:
    asked = Schedule(args["from_every"], args.get("from_seconds"), args.get("start", 0), args.get("end"))
    return Throttling(
        worker=worker,
        collection=args["collection"],
        statistics=frozenset(args.get("statistics", ())),
        raw=bool(args.get("raw")),
        mode=args.get("mode", "train"),
        sources=frozenset(args.get("sources", ())),
        asked=asked,
        captured=replace(asked, every=args["to_every"], every_seconds=args.get("to_seconds")),
        since_step=int(args["since_step"]),
    )


def format_throttling(thinnings: Iterable[Throttling]) -> str:
    """In one line what was thinned: why a rule that saw nothing bad is not sure."""
    found = sorted(thinnings, key=lambda each: each.since_step)
    if not found:
        return ""
    widest = max(found, key=_factor)
    names = list(dict.fromkeys(each.collection or "tensors" for each in found))
    what = " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
    first = found[0].since_step
    return f"the overhead budget thinned {what} from step {first:,} on: {_interval(widest)}; --budget off keeps all"


def _factor(thinning: Throttling) -> float:
    asked, captured = thinning.asked, thinning.captured
    if asked.every is not None and captured.every is not None:
        return captured.every / asked.every
    return (captured.every_seconds or 1.0) / (asked.every_seconds or 1.0)


def _interval(thinning: Throttling) -> str:
    asked, captured = thinning.asked, thinning.captured
    if captured.every is not None:
        return f"every {captured.every:,} steps, not every {'step' if asked.every == 1 else f'{asked.every:,}'}"
    return f"every {captured.every_seconds:g} s, not every {asked.every_seconds:g} s"
