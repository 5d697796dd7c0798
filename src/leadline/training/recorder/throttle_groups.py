"""Which wishes of a plan may be thinned, and which are thinned together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from leadline.records.names import FEATURE_COLLECTIONS, SCALAR_COLLECTIONS
from leadline.records.plan import CaptureItem, Schedule

Kind = Literal["asked", "kept", "thinnable"]

_KEPT_COLLECTIONS: Final = SCALAR_COLLECTIONS - FEATURE_COLLECTIONS - {"gradient_norms"}
_KEPT_STATISTICS: Final = frozenset({"nan_count", "nonfinite_count"})
_PARAMETERS: Final = frozenset({"weights", "biases", "gradients", "all", None})
_RAW: Final = "raw"
_BRIEF_STEPS: Final = 50


@dataclass(frozen=True, slots=True)
class ThrottleGroup:
    """Wishes that are due together, cost together and, where that may be, are thinned together."""

    kind: Kind
    """``asked`` by the user's own options, or for the first steps only, which does not count;
    ``kept`` always: losses, scalars, non-finite checks; ``thinnable``."""
    schedule: Schedule
    modes: tuple[str, ...]
    items: tuple[CaptureItem, ...]
    sources: tuple[str, ...]
    """All who need these wishes at this schedule, also those whose own were left out as doubles."""

    @property
    def collections(self) -> tuple[str | None, ...]:
        """The collections meant, each once; None: those that only a regular expression selects."""
        return tuple(dict.fromkeys(item.collection for item in self.items))


@dataclass(slots=True)
class _Own:
    """A wish under way to its group, with all who need it."""

    kind: Kind
    item: CaptureItem
    sources: list[str]


def divide(items: Iterable[CaptureItem]) -> tuple[ThrottleGroup, ...]:
    """The wishes of a plan in groups; every statistic stands once for a collection, a mode and a schedule.

    What an option asks covers whatever a preset or rule wishes at some of its steps. Of presets and rules the first
    that wishes a statistic owns it; what another wishes at the same schedule is thinned with it. Non-finite counts
    are split off: they are kept when the rest of a wish is thinned.
    """
    owned: list[_Own] = []
    for item in sorted(items, key=_rank):
        if item.source == "option" or _is_brief(item.schedule):
            owned.append(_Own("asked", item, [item.source]))
        elif item.collection in _KEPT_COLLECTIONS:
            owned.append(_Own("kept", item, [item.source]))
        else:
            for mode in item.modes:
                _take_in(replace(item, modes=(mode,)), owned)
    return _grouped(owned)


def _is_brief(schedule: Schedule) -> bool:
    """Whether a wish is for so few steps that it costs next to nothing, and would be over before it is thinned."""
    return schedule.end is not None and schedule.end - schedule.start <= _BRIEF_STEPS


def _rank(item: CaptureItem) -> int:
    return {"option": 0, "preset": 1}.get(item.source, 2)


def _take_in(item: CaptureItem, owned: list[_Own]) -> None:
    left = _wanted(item)
    for other in owned:
        if not left or not _covers(other, item):
            continue
        shared = left & _wanted(other.item)
        if shared and item.source not in other.sources:
            other.sources.append(item.source)
        left -= shared
    kept = _KEPT_STATISTICS | (frozenset() if item.collection in SCALAR_COLLECTIONS else {"value"})
    parts: tuple[tuple[Kind, frozenset[str]], ...] = (("kept", left & kept), ("thinnable", left - kept))
    owned += [_Own(kind, _narrowed(item, part), [item.source]) for kind, part in parts if part]


def _wanted(item: CaptureItem) -> frozenset[str]:
    return frozenset(item.statistics) | ({_RAW} if item.raw else frozenset())


def _narrowed(item: CaptureItem, part: frozenset[str]) -> CaptureItem:
    return replace(item, statistics=tuple(each for each in item.statistics if each in part), raw=_RAW in part)


def _covers(other: _Own, item: CaptureItem) -> bool:
    """Whether what both want is captured for ``other`` at every step at which ``item`` wants it."""
    whole = other.item
    if whole.collection != item.collection and not (whole.collection == "all" and other.kind == "asked"):
        return False
    if whole.regex not in (None, item.regex) or not set(item.modes) <= set(whole.modes):
        return False
    if whole.schedule == item.schedule:
        return True
    return other.kind != "thinnable" and _includes(whole.schedule, item.schedule)


def _includes(often: Schedule, seldom: Schedule) -> bool:
    """Whether every step of the one schedule is one of the other."""
    if often.every is None or seldom.every is None or seldom.every_seconds is not None:
        return False
    is_within = often.start <= seldom.start and (
        often.end is None or (seldom.end is not None and seldom.end <= often.end)
    )
    return is_within and seldom.every % often.every == 0 and set(seldom.steps) <= set(often.steps)


def _grouped(owned: Sequence[_Own]) -> tuple[ThrottleGroup, ...]:
    found: dict[tuple[object, ...], list[_Own]] = {}
    for own in owned:
        item = own.item
        family = "parameters" if item.collection in _PARAMETERS else item.collection
        owner = item.source if own.kind == "thinnable" else ""
        found.setdefault((own.kind, family, item.schedule, item.modes, item.raw, owner), []).append(own)
    return tuple(
        ThrottleGroup(
            each[0].kind,
            each[0].item.schedule,
            each[0].item.modes,
            tuple(own.item for own in each),
            tuple(dict.fromkeys(source for own in each for source in own.sources)),
        )
        for each in found.values()
    )
