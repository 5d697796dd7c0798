"""Groups of capture items that are captured together, with their price."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from leadline.records.documents import CaptureCost, SampledItem
from leadline.records.names import (
    ACCURACY,
    CHECKS,
    GRADIENT_NORMS,
    MODULE_COLLECTIONS,
    SCALAR_COLLECTIONS,
    is_module_collection,
)
from leadline.records.plan import CaptureItem, Schedule

Kind = Literal["always", "reserved", "delayable"]
"""``always``: captured when scheduled: what the user's own options ask for, scalars that are read and not computed, and
what is needed for the first few steps only; ``reserved``: cheap and important, paid from the reserve: gradient norms,
accuracies, non-finite counts and loop checks; ``delayable``: everything else."""
Part = Literal["tensors", "raw", "forward"]
"""What is measured apart: statistics of parameters and gradients; their raw tensors; everything of a forward pass."""

_SCALARS: Final = frozenset({"losses", "metrics", "scalars", "hyperparameters", CHECKS})
_COUNTS: Final = frozenset({"nan_count", "nonfinite_count"})
_COUNTS_AND_VALUES: Final = _COUNTS | {"value"}
_PARAMETERS: Final = frozenset({"weights", "biases", "gradients", GRADIENT_NORMS, "all", None})
_RAW: Final = "raw"
_BRIEF_STEPS: Final = 50
_CHECKS_NS: Final = 100_000.0
"""What loop checks cost, which are taken all over a step: that it and the next one are not deferred, above all."""
_FAR: Final = 1 << 30
"""Steps until the next scheduled step where there is none."""
_LONGEST_DELAY: Final = 64
"""In steps."""
_RETRY_EVERY: Final = 32
"""In steps; after a shorter delay, every multiple of the largest power of two that fits into the delay."""
_MAX_RATIO: Final = 4.0
"""Beyond this ratio to the estimate a measured cost is an outlier."""
_MIN_SHARE: Final = 0.25
"""The least share of a joint capture's cost that is attributed to groups without a price."""


@dataclass(slots=True)
class Sampling:
    """How often items were captured, of how many times that their schedule requested; several optimizers count once."""

    requests: int = 0
    captures: int = 0
    longest_gap: int = 0
    """The most steps between two captures."""
    own_ns: float = 0.0
    """What the captures have taken of the training thread."""
    _requested_step: int = -1
    _captured_step: int = -1

    def request(self, step: int, count: int = 1) -> None:
        """Count requests up to ``step``."""
        if step > self._requested_step:
            self._requested_step = step
            self.requests += count

    def capture(self, step: int) -> None:
        """Count a capture."""
        if step > self._captured_step:
            if self._captured_step >= 0:
                self.longest_gap = max(self.longest_gap, step - self._captured_step)
            self._captured_step = step
            self.captures += 1


class CaptureGroup:
    """Items of one kind and schedule that are captured, delayed and priced together.

    Args:
        is_forward: Whether the items are captured in forward passes.

    Attributes:
        is_charged: Whether the budget pays for it.
        weight: The number of statistics, which stands for the price as long as that is unknown.
        has_fixed_price: Whether its price is a constant, as its cost is not measured.
        price_ns: The estimated cost of a capture; None until one was measured.
        sampling: Counts its requests and captures.
        next_step: The first scheduled step after the last one that was asked for.
        pending_step: The scheduled step since which it is pending; None: it is not.
        retry_step: While it is delayed, the step at which it is tried again.
        retry_every: The steps at which it is tried are multiples of this; 1 after a capture that was not delayed.
        earned_at_delay_ns: What the budget had earned when it was first delayed; None: it is not delayed.
        level: With several ranks it is captured only at multiples of its interval times two to the power of this.
        measured: Sets of groups, starting with this one, that were captured together before.
    """

    def __init__(self, items: tuple[CaptureItem, ...], *, is_forward: bool = False) -> None:
        first = items[0]
        self.items, self.schedule, self.kind = items, first.schedule, kind_of(first)
        self.part: Part = "forward" if is_forward else "raw" if first.raw and not first.statistics else "tensors"
        self.is_charged = first.source != "option"
        self.weight = sum(len(item.statistics) + item.raw for item in items) or 1
        self.has_fixed_price = first.collection == CHECKS
        self.price_ns: float | None = _CHECKS_NS if self.has_fixed_price else None
        self.sampling = Sampling()
        self.next_step = next_scheduled(self.schedule, -1)
        self.retry_step = self.level = 0
        self.retry_every = 1
        self.pending_step: int | None = None
        self.earned_at_delay_ns: float | None = None
        self.measured: set[tuple[CaptureGroup, ...]] = set()

    def skip_to(self, step: int) -> None:
        """Skip what is scheduled before a step, and was captured by an earlier incarnation of the run."""
        self.next_step = next_scheduled(self.schedule, step - 1)
        self.pending_step = None

    def is_pending(self, step: int, *, is_timed_out: bool = False) -> bool:
        """Advance to ``step``; return whether the group is to be captured there if the budget allows.

        Args:
            is_timed_out: Whether an interval in seconds has passed.
        """
        scheduled = self.next_step
        if scheduled <= step:
            self.next_step = next_scheduled(self.schedule, step)
            is_late = self.pending_step is not None or self.retry_every > 1
            count = count_scheduled(self.schedule, scheduled, step) if is_late else 1
            self.sampling.request(step, count)
        elif is_timed_out and self.pending_step is None:
            self.sampling.request(step)
            scheduled = step
        if self.pending_step is None and scheduled <= step:
            self.pending_step, self.retry_step = scheduled, step if is_timed_out else self._next_try(scheduled)
        return self.pending_step is not None and self.retry_step <= step

    def take(self, step: int) -> None:
        """Note that it is captured at ``step``."""
        self.sampling.capture(step)
        if self.earned_at_delay_ns is None:
            self.retry_every = 1
        self.pending_step = self.earned_at_delay_ns = None

    def delay(self, step: int, steps: int) -> None:
        """Delay it by so many steps, which are an estimate, at most 64 or another eighth of the delay.

        Groups are tried again at the same steps where possible, and after a delay also for the first time: between
        these, steps can be deferred.
        """
        delay = max(1, min(steps, max(_LONGEST_DELAY, (step - (self.pending_step or 0)) // 8)))
        self.retry_every = min(1 << (delay.bit_length() - 1), _RETRY_EVERY)
        self.retry_step = self._next_try(step + delay)

    def delay_aligned(self, step: int) -> None:
        """Delay it to a step that depends on its number alone, so that several ranks choose the same."""
        self.retry_step = (step // self._aligned_interval + 1) * self._aligned_interval

    @property
    def is_aligned(self) -> bool:
        """Whether the step at which it is tried is one at which several ranks capture it.

        Listed steps are, while the credit sufficed for the steps before.
        """
        is_listed = self.level == 0 and self.retry_step in self.schedule.steps
        return is_listed or self.retry_step % self._aligned_interval == 0

    @property
    def _aligned_interval(self) -> int:
        return (self.schedule.every or 1) << self.level

    @property
    def interesting_step(self) -> int:
        """The next step at which it may be captured."""
        return self._next_try(self.next_step) if self.pending_step is None else self.retry_step

    def _next_try(self, step: int) -> int:
        return -(-step // self.retry_every) * self.retry_every


def next_scheduled(schedule: Schedule, step: int) -> int:
    """Return the first scheduled step after ``step``, by step numbers."""
    following = step + _FAR
    every = schedule.every
    if every is not None:
        first = step + 1 if step >= schedule.start else schedule.start
        multiple = -(-first // every) * every
        if schedule.end is None or multiple < schedule.end:
            following = multiple
    if schedule.steps:
        following = min((listed for listed in schedule.steps if step < listed < following), default=following)
    return following


def count_scheduled(schedule: Schedule, first: int, last: int) -> int:
    """Return the number of scheduled steps from ``first`` to ``last``, both inclusive, by step numbers."""
    steps = {step for step in schedule.steps if first <= step <= last}
    if schedule.every is None:
        return len(steps)
    begin, end = max(first, schedule.start), last + 1 if schedule.end is None else min(last + 1, schedule.end)
    regular = range(-(-begin // schedule.every) * schedule.every, end, schedule.every)
    return len(regular) + sum(step not in regular for step in steps)


# --- prices -----------------------------------------------------------------------------------------------


def divide_cost(groups: Sequence[CaptureGroup], cost_ns: int) -> list[float]:
    """Divide the cost of a joint capture by the prices of its groups; those without one by their weights."""
    cost_ns = max(cost_ns, 1)  # clocks of processor time are coarse on some systems
    known = sum(group.price_ns for group in groups if group.price_ns is not None)
    weight = sum(group.weight for group in groups if group.price_ns is None)
    rest = max(cost_ns - known, _MIN_SHARE * cost_ns) if weight else 0.0
    shares = [group.weight / weight * rest if group.price_ns is None else group.price_ns for group in groups]
    total = sum(shares)
    return [share * cost_ns / total for share in shares]


def learn_prices(groups: Sequence[CaptureGroup], shares: Iterable[float]) -> None:
    """Correct the prices of the groups of a joint capture, all by the same factor."""
    for group, share in zip(groups, shares, strict=True):
        if group.price_ns is None:
            group.price_ns = max(share, 1.0)
        else:
            ratio = min(max(share / group.price_ns, 1 / _MAX_RATIO), _MAX_RATIO)
            group.price_ns *= ratio**0.5


# --- from items to groups ---------------------------------------------------------------------------------


def split(items: Iterable[CaptureItem]) -> tuple[CaptureItem, ...]:
    """Split the items of a plan into those of one kind each.

    Non-finite counts and raw tensors are split off. What an option captures at all steps of another item is removed
    from that one.
    """
    items = tuple(items)
    asked = [item for item in items if item.source == "option"]
    parted: list[CaptureItem] = []
    for item in items:
        if item.source == "option" or not (item.statistics or item.raw):
            parted.append(item)
            continue
        parts = _parts(item).difference(*(_parts(option) for option in asked if _covers(option, item)))
        counts = parts & (_COUNTS if item.collection in SCALAR_COLLECTIONS else _COUNTS_AND_VALUES)
        for part in (counts, parts - counts - {_RAW}, parts & {_RAW}):
            if part:
                parted.append(_restricted(item, part))
    return tuple(parted)


def kind_of(item: CaptureItem) -> Kind:
    """Return the kind of an item of ``split``."""
    schedule = item.schedule
    is_brief = schedule.end is not None and schedule.end - schedule.start <= _BRIEF_STEPS
    if item.source == "option" or is_brief:
        return "always"
    if item.collection in _SCALARS:
        return "reserved" if item.regex == ACCURACY or item.collection == CHECKS else "always"
    if item.collection in SCALAR_COLLECTIONS:
        return "reserved" if item.collection == GRADIENT_NORMS else "delayable"
    is_count = bool(item.statistics) and not item.raw and _COUNTS_AND_VALUES.issuperset(item.statistics)
    return "reserved" if is_count else "delayable"


def divide(items: Iterable[CaptureItem], *, is_forward: bool) -> list[CaptureGroup]:
    """Divide items of ``split`` into groups: one kind, schedule and part each.

    Statistics of weights, biases and gradients of one schedule are one group, whoever requests them: rules compare
    them, and so are the inputs and outputs of all kinds of layers. Of other collections each has its own: the inputs
    of the model must not wait until all layers are affordable.

    Args:
        is_forward: Whether the items are captured in forward passes.
    """
    grouped: dict[tuple[object, ...], list[CaptureItem]] = {}
    for item in items:
        kind = kind_of(item)
        is_parameter = not is_forward and item.collection in _PARAMETERS
        family = "parameters" if is_parameter or kind == "always" else item.collection
        if family is not None and family not in MODULE_COLLECTIONS and is_module_collection(family):
            family = "kinds of layers"
        grouped.setdefault((kind, item.source == "option", family, item.schedule, item.raw), []).append(item)
    return [CaptureGroup(tuple(of_group), is_forward=is_forward) for of_group in grouped.values()]


def sampled_items(group: CaptureGroup, mode: str, steps: int) -> Iterator[SampledItem]:
    """Yield the records of what was captured less often than requested, one for each collection of a group.

    Args:
        steps: The steps of the mode.
    """
    sampling, schedule = group.sampling, group.schedule
    if sampling.captures >= sampling.requests:
        return
    for collection in dict.fromkeys(item.collection for item in group.items):
        items = [item for item in group.items if item.collection == collection]
        yield SampledItem(
            collection=collection,
            regexes=tuple(item.regex for item in items if item.regex is not None),
            statistics=tuple(sorted({name for item in items for name in item.statistics})),
            raw=any(item.raw for item in items),
            mode=mode,
            sources=tuple(dict.fromkeys(item.source for item in items)),
            requested_every=schedule.every,
            requested_seconds=schedule.every_seconds,
            requests=sampling.requests,
            captures=sampling.captures,
            steps=steps,
            longest_gap=sampling.longest_gap,
        )


def capture_cost(group: CaptureGroup, mode: str) -> CaptureCost:
    """Return what the captures of a group have taken."""
    return CaptureCost(
        collections=tuple(dict.fromkeys(item.collection for item in group.items if item.collection is not None)),
        statistics=tuple(sorted({name for item in group.items for name in item.statistics})),
        sources=tuple(dict.fromkeys(item.source for item in group.items)),
        mode=mode,
        captures=group.sampling.captures,
        own_ns=int(group.sampling.own_ns),
    )


def _parts(item: CaptureItem) -> frozenset[str]:
    return frozenset(item.statistics) | ({_RAW} if item.raw else frozenset())


def _restricted(item: CaptureItem, parts: frozenset[str]) -> CaptureItem:
    statistics = tuple(statistic for statistic in item.statistics if statistic in parts)
    is_whole = statistics == item.statistics and (_RAW in parts) == item.raw
    return item if is_whole else replace(item, statistics=statistics, raw=_RAW in parts)


def _covers(option: CaptureItem, item: CaptureItem) -> bool:
    """Return whether an option selects the tensors of an item, in its modes and at all of its steps."""
    if option.collection not in (item.collection, "all") or option.regex not in (None, item.regex):
        return False
    if option.modules is not None or option.family not in (None, item.family):
        return False
    return set(item.modes) <= set(option.modes) and _includes(option.schedule, item.schedule)


def _includes(frequent: Schedule, rare: Schedule) -> bool:
    """Return whether every step of the rare schedule is one of the frequent one."""
    if frequent.every is None or rare.every is None or rare.every_seconds is not None:
        return False
    is_within = frequent.start <= rare.start and (
        frequent.end is None or (rare.end is not None and rare.end <= frequent.end)
    )
    return is_within and rare.every % frequent.every == 0 and all(map(frequent.should_capture, rare.steps))
