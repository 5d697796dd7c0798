"""Groups of capture items that are throttled together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from leadline.records.names import FEATURE_COLLECTIONS, SCALAR_COLLECTIONS
from leadline.records.plan import CaptureItem, Schedule

Kind = Literal["asked", "kept", "throttled"]

_KEPT_COLLECTIONS: Final = SCALAR_COLLECTIONS - FEATURE_COLLECTIONS - {"gradient_norms"}
_KEPT_STATISTICS: Final = frozenset({"nan_count", "nonfinite_count"})
_PARAMETERS: Final = frozenset({"weights", "biases", "gradients", "all", None})
_RAW: Final = "raw"
_BRIEF_STEPS: Final = 50


@dataclass(frozen=True, slots=True)
class ThrottleGroup:
    """Items that are captured together, have one cost and, where that is allowed, are throttled together."""

    kind: Kind
    """``asked`` for by the user's own options, or for the first steps only: not part of the budget;
    ``kept`` always: losses, scalars, non-finite checks; ``throttled`` to stay within the budget."""
    schedule: Schedule
    modes: tuple[str, ...]
    items: tuple[CaptureItem, ...]
    sources: tuple[str, ...]
    """The sources of all items at this schedule, including those of duplicates that were dropped."""

    @property
    def collections(self) -> tuple[str | None, ...]:
        """The collections of the items, each once; None for items that only a regular expression selects."""
        return tuple(dict.fromkeys(item.collection for item in self.items))


@dataclass(slots=True)
class _Grouped:
    """An item on its way to its group, with all its sources."""

    kind: Kind
    item: CaptureItem
    sources: list[str]


def divide(items: Iterable[CaptureItem]) -> tuple[ThrottleGroup, ...]:
    """Divide the items of a plan into groups; each statistic occurs once per collection, mode and schedule.

    An item of an option covers the items of presets and rules at the steps that both capture. Of presets and rules the
    first that asks for a statistic owns it; another at the same schedule is throttled with it. Non-finite counts are
    split off: they are kept when the rest of an item is throttled.
    """
    grouped: list[_Grouped] = []
    for item in sorted(items, key=_rank):
        if item.source == "option" or _is_brief(item.schedule):
            grouped.append(_Grouped("asked", item, [item.source]))
        elif item.collection in _KEPT_COLLECTIONS:
            grouped.append(_Grouped("kept", item, [item.source]))
        else:
            for mode in item.modes:
                _add(replace(item, modes=(mode,)), grouped)
    return _groups(grouped)


def _is_brief(schedule: Schedule) -> bool:
    """Return whether a schedule has so few steps that it costs next to nothing and ends before it is throttled."""
    return schedule.end is not None and schedule.end - schedule.start <= _BRIEF_STEPS


def _rank(item: CaptureItem) -> int:
    return {"option": 0, "preset": 1}.get(item.source, 2)


def _add(item: CaptureItem, grouped: list[_Grouped]) -> None:
    remaining = _parts(item)
    for other in grouped:
        if not remaining or not _covers(other, item):
            continue
        shared = remaining & _parts(other.item)
        if shared and item.source not in other.sources:
            other.sources.append(item.source)
        remaining -= shared
    kept = _KEPT_STATISTICS | (frozenset() if item.collection in SCALAR_COLLECTIONS else {"value"})
    split: tuple[tuple[Kind, frozenset[str]], ...] = (("kept", remaining & kept), ("throttled", remaining - kept))
    grouped += [_Grouped(kind, _restricted(item, part), [item.source]) for kind, part in split if part]


def _parts(item: CaptureItem) -> frozenset[str]:
    return frozenset(item.statistics) | ({_RAW} if item.raw else frozenset())


def _restricted(item: CaptureItem, parts: frozenset[str]) -> CaptureItem:
    statistics = tuple(statistic for statistic in item.statistics if statistic in parts)
    return replace(item, statistics=statistics, raw=_RAW in parts)


def _covers(other: _Grouped, item: CaptureItem) -> bool:
    """Return whether what both capture is captured for ``other`` at every step of ``item``."""
    whole = other.item
    if whole.collection != item.collection and not (whole.collection == "all" and other.kind == "asked"):
        return False
    if whole.regex not in (None, item.regex) or not set(item.modes) <= set(whole.modes):
        return False
    if whole.schedule == item.schedule:
        return True
    return other.kind != "throttled" and _includes(whole.schedule, item.schedule)


def _includes(frequent: Schedule, rare: Schedule) -> bool:
    """Return whether every step of the rare schedule is one of the frequent one."""
    if frequent.every is None or rare.every is None or rare.every_seconds is not None:
        return False
    is_within = frequent.start <= rare.start and (
        frequent.end is None or (rare.end is not None and rare.end <= frequent.end)
    )
    return is_within and rare.every % frequent.every == 0 and set(rare.steps) <= set(frequent.steps)


def _groups(grouped: Sequence[_Grouped]) -> tuple[ThrottleGroup, ...]:
    by_key: dict[tuple[object, ...], list[_Grouped]] = {}
    for entry in grouped:
        item = entry.item
        family = "parameters" if item.collection in _PARAMETERS else item.collection
        owner = item.source if entry.kind == "throttled" else ""
        by_key.setdefault((entry.kind, family, item.schedule, item.modes, item.raw, owner), []).append(entry)
    return tuple(
        ThrottleGroup(
            entries[0].kind,
            entries[0].item.schedule,
            entries[0].item.modes,
            tuple(entry.item for entry in entries),
            tuple(dict.fromkeys(source for entry in entries for source in entry.sources)),
        )
        for entries in by_key.values()
    )
