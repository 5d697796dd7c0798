"""The overhead budget: one token bucket for all that Leadline takes from the training's thread."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from leadline.records.documents import CaptureCost, OverheadAtStart, SampledItem
from leadline.training.recorder.capture_groups import (
    CaptureGroup,
    Part,
    capture_cost,
    divide_cost,
    learn_prices,
    sampled_items,
)
from leadline.training.recorder.overhead import Overhead

_START_STEPS: Final = 50
"""The first steps capture at 0, 1, 2 …, and what is captured once."""
START_NS: Final = 600_000_000
"""The credit at the start: a short run is captured whole."""
SAVED_NS: Final = 1_000_000_000
"""The most that is saved, unless a capture costs more than half of it."""
RESERVE_SHARE: Final = 0.5
"""What the reserve has at the start, and at most, as a share of the credit then; and what it earns, as a share of what
is left when debts are paid."""
RESERVE_STEP_NS: Final = 2_000
"""What the reserve earns at each step beside that."""
CAPTURES_SHARE: Final = 0.25
"""The least share of what is earned that is left for captures, and the least share of that for delayable ones."""
PATIENCE: Final = 4.0
"""A capture that waited until this multiple of its price was earned is made even if the credit does not cover it."""
_AVERAGED: Final = 16
"""The average is that of about so many measurements."""
_MOST_BESIDE: Final = 2.0
"""What a step with captures costs beside these is attributed to them up to this multiple of what they cost alone."""
_FIRST_STEPS_TOGETHER: Final = 100
_EVERY_TOGETHER: Final = 50
_SURPLUS: Final = 1.5
"""With several ranks a delayed group is captured more often if this multiple of its price is left after a capture."""


class Budget:
    """Credit for captures, earned with the time since the first step and spent by everything that Leadline does.

    A scheduled group of items is captured if the credit covers its price, the cheapest first; otherwise it is tried
    again at the step at which the credit will suffice. The credit may become negative, by a capture whose price is
    unknown or too low, and by one that has waited so long that others must not be preferred to it any more. The cost of
    steps without captures is paid first, from at most three quarters of what is earned, and so is the processor time of
    the writer's thread, multiplied by the share of the processors that the process uses: where all are busy, the
    training loses that time. Gradient norms, accuracies and non-finite counts have a reserve of their own, and wait
    only while it is empty; groups that are scheduled at every step leave enough in it for those that are scheduled less
    often.

    Several ranks do not communicate, but must capture at the same steps, since rules compare them. There a delayed
    group is captured only at multiples of its interval times a power of two, which grows while the credit does not
    suffice: ranks with different prices meet at the multiples of the larger one. Where a capture itself communicates,
    a rank that captures alone would wait forever, so only the step number decides. Everything pending is captured
    in the first 100 steps, and after these at every 50th step; schedules by time are not captured.

    Args:
        share: The share of the elapsed time.
        overhead: The overhead so far, in total; its clock is the budget's.
        step: Returns the number of steps so far.
        is_distributed: Returns whether this process is one rank of several.
        captures_together: Returns whether a capture communicates with the other ranks.
    """

    def __init__(
        self,
        share: float,
        overhead: Overhead,
        *,
        step: Callable[[], int],
        is_distributed: Callable[[], bool] = lambda: False,
        captures_together: Callable[[], bool] = lambda: False,
    ) -> None:
        self._share = share
        self._overhead = overhead
        self._step = step
        self._is_distributed = is_distributed
        self._captures_together = captures_together
        self._credit, self._reserve = float(START_NS), RESERVE_SHARE * START_NS
        self._debt_ns = 0.0
        """The cost of steps without captures, and of first captures, that is not paid yet."""
        self._earned_ns = 0.0
        self._max_price_ns = 0.0
        self._settled: tuple[int, int] | None = None
        """Time and step up to which credit was earned."""
        self._credit_per_step = self._reserve_per_step = 0.0
        """What a step has earned on average when credit was earned last."""
        self._own_ns = self._captured_ns = 0
        """Overhead so far, without captures and of captures."""
        self._begun_ns: int | None = None
        """The overhead so far when the first capture of the current step was chosen; None: none was."""
        self._plain_ns = 0.0
        """The overhead of a step without captures, on average."""
        self._writer_ns, self._used_ns = overhead.writer_ns, time.process_time_ns()
        """Processor time of the writer's thread and of this process so far."""
        self._processors = len(os.sched_getaffinity(0))
        self._committed = self._committed_reserve = 0.0
        """The prices of the captures of this step that were not measured yet."""
        self._costs: dict[tuple[CaptureGroup, ...], int] = {}
        """The measured captures of this step."""
        self._groups: dict[tuple[object, ...], tuple[str, CaptureGroup]] = {}
        self._first_step: int | None = None
        self.start: OverheadAtStart | None = None
        """The overhead of the first steps; None: they are not over."""

    def add(self, groups: Iterable[CaptureGroup], mode: str) -> None:
        """Add the groups of a schedule; equal groups, of another optimizer or of a plan before, are counted as one."""
        for group in groups:
            collections = tuple(dict.fromkeys(item.collection for item in group.items))
            key = (mode, group.kind, group.part, group.is_charged, group.schedule, collections)
            if key in self._groups:
                group.sampling = self._groups[key][1].sampling
            self._groups[key] = (mode, group)

    def sampled(self, steps: Mapping[str, int]) -> tuple[SampledItem, ...]:
        """Return what was captured less often than requested.

        Args:
            steps: The number of steps by mode.
        """
        groups = tuple(self._groups.values())
        return tuple(item for mode, group in groups for item in sampled_items(group, mode, steps.get(mode, 0)))

    def costs(self) -> tuple[CaptureCost, ...]:
        """Return what captures have taken so far."""
        return tuple(capture_cost(group, mode) for mode, group in self._groups.values() if group.sampling.own_ns)

    # --- choice ---------------------------------------------------------------------------------------------

    def choose(self, pending: Sequence[CaptureGroup], step: int) -> list[CaptureGroup]:
        """Return the groups to capture at a step of their mode; the others are delayed."""
        self._earn()
        if self._begun_ns is None:
            self._begun_ns = self._own_ns + self._captured_ns
        if self.start is None:
            self._note_start()
        is_aligned, is_together = self._is_distributed(), self._captures_together()
        chosen = []
        for group in sorted(pending, key=_order):
            if group.kind == "always":
                is_taken = True
            elif is_together:
                is_common = step <= _FIRST_STEPS_TOGETHER or step % _EVERY_TOGETHER == 0
                is_taken = is_common and group.schedule.every_seconds is None
            elif is_aligned and group.schedule.every_seconds is None:
                is_taken = group.is_aligned and self._affords(group)
                self._adjust(group, is_taken=is_taken)
            else:
                is_taken = self._affords(group)
            if is_taken:
                self._commit(group)
                group.take(step)
                chosen.append(group)
            else:
                if group.earned_at_delay_ns is None:
                    group.earned_at_delay_ns = self._earned_ns
                if is_aligned and group.schedule.every_seconds is None:
                    group.delay_aligned(step)
                else:
                    group.delay(step, self._steps_until_affordable(group))
        return chosen

    def _note_start(self) -> None:
        """Note the overhead of the first steps once they are over."""
        if self._first_step is None:
            self._first_step = self._step()
        elif (steps := self._step() - self._first_step) > _START_STEPS:
            own_ns = self._overhead.own_ns + self._overhead.compile_ns
            self.start = OverheadAtStart(steps, own_ns, self._overhead.loop_ns)

    def _affords(self, group: CaptureGroup) -> bool:
        return self._missing(group) <= 0.0

    def _missing(self, group: CaptureGroup) -> float:
        """Return the credit that a group needs beyond what there is."""
        price = group.price_ns or 0.0
        if group.kind == "reserved":
            rarer = self._price_of_rarer(group)
            return (rarer + price if rarer else 0.0) - (self._reserve - self._committed_reserve)
        return (0.0 if self._is_overdue(group) else price) - (self._credit - self._committed)

    def _steps_until_affordable(self, group: CaptureGroup) -> int:
        per_step = self._reserve_per_step if group.kind == "reserved" else self._credit_per_step
        return int(self._missing(group) / per_step) + 1 if per_step > 0 else 1

    def _is_overdue(self, group: CaptureGroup) -> bool:
        since = group.earned_at_delay_ns
        return since is not None and self._earned_ns - since >= PATIENCE * (group.price_ns or 0.0)

    def _price_of_rarer(self, group: CaptureGroup) -> float:
        """Return what the reserved groups cost that are scheduled less often than a group of every step."""
        if group.schedule.every != 1:
            return 0.0
        others = (other for _, other in self._groups.values() if other.kind == "reserved" and other.schedule.every != 1)
        return sum(other.price_ns or 0.0 for other in others)

    def _commit(self, group: CaptureGroup) -> None:
        if group.kind == "reserved" and group.has_fixed_price:
            self._reserve -= group.price_ns or 0.0
        elif group.kind == "reserved":
            self._committed_reserve += group.price_ns or 0.0
        elif group.kind == "delayable":
            self._committed += group.price_ns or 0.0

    def _adjust(self, group: CaptureGroup, *, is_taken: bool) -> None:
        """Adjust the steps at which a group is captured where there are several ranks."""
        if not is_taken:
            group.level += group.is_aligned and not self._is_overdue(group)
            return
        left = self._reserve if group.kind == "reserved" else self._credit - self._committed
        if group.level and left >= (1 + _SURPLUS) * (group.price_ns or 0.0):
            group.level -= 1

    # --- measured costs ---------------------------------------------------------------------------------------

    def charge(self, groups: Iterable[CaptureGroup], part: Part, cost_ns: int) -> None:
        """Charge a capture, at the end of the step.

        Args:
            groups: The captured groups, of which those of the part are charged.
            cost_ns: The processor time of the training's thread, which is part of the overhead: on a busy machine a
                capture takes longer, but so does everything else.
        """
        captured = tuple(group for group in groups if group.part == part)
        if captured:
            self._costs[captured] = self._costs.get(captured, 0) + cost_ns
            self._captured_ns += cost_ns

    def end_step(self) -> None:
        """Charge the captures of the step that ends: all that it costs beyond a step without captures."""
        self._committed = self._committed_reserve = 0.0
        begun_ns, self._begun_ns = self._begun_ns, None
        if not self._costs:
            return
        costs, self._costs = self._costs, {}
        measured_ns = sum(costs.values())
        rest_ns = 0
        if begun_ns is not None and measured_ns > 0:
            step_ns = self._overhead.until(self._overhead.clock()) - begun_ns
            rest_ns = min(max(int(step_ns - measured_ns - self._plain_ns), 0), int(_MOST_BESIDE * measured_ns))
        self._captured_ns += rest_ns
        for groups, cost in costs.items():
            self._pay(groups, cost + (cost * rest_ns // measured_ns if rest_ns else 0))

    def _pay(self, groups: tuple[CaptureGroup, ...], cost_ns: int) -> None:
        shares = divide_cost(groups, cost_ns)
        is_first = groups not in groups[0].measured
        groups[0].measured.add(groups)
        if not is_first:
            learn_prices(groups, shares)
        for group, share in zip(groups, shares, strict=True):
            group.sampling.own_ns += share
            if not group.is_charged:
                continue
            if is_first or group.kind == "always":
                self._debt_ns += share  # the first capture builds what later ones use
            elif group.kind == "reserved":
                self._reserve -= share
            else:
                self._credit -= share
                self._max_price_ns = max(self._max_price_ns, group.price_ns or 0.0)

    def _earn(self) -> None:
        """Earn credit for the time since the last call, and pay for the steps in it."""
        now, step = self._overhead.clock(), self._step()
        total = self._overhead.until(now)
        own, self._own_ns = total - self._captured_ns - self._own_ns, total - self._captured_ns
        since, since_step = self._settled or (now, step)
        if step > since_step:
            self._plain_ns += (max(own, 0) / (step - since_step) - self._plain_ns) / _AVERAGED
        own += self._writer_share(now - since)
        self._settled = (now, step)
        earned = self._share * (now - since)
        self._earned_ns += earned
        self._debt_ns = min(max(self._debt_ns + own, 0.0), SAVED_NS)
        paid = min(self._debt_ns, (1 - CAPTURES_SHARE) * earned)
        self._debt_ns -= paid
        left, from_steps = earned - paid, RESERVE_STEP_NS * (step - since_step)
        reserved = min(RESERVE_SHARE * left + from_steps, RESERVE_SHARE * START_NS - self._reserve)
        rest = max(left - reserved, CAPTURES_SHARE * left)
        self._reserve += reserved
        self._credit = min(self._credit + rest, max(SAVED_NS, 2 * self._max_price_ns))
        if step > since_step:
            self._reserve_per_step = reserved / (step - since_step)
            self._credit_per_step = rest / (step - since_step)

    def _writer_share(self, elapsed_ns: int) -> int:
        """Return what the writer's thread has taken from the training since the last call."""
        writer_ns, used_ns = self._overhead.writer_ns, time.process_time_ns()
        took_ns, busy_ns = writer_ns - self._writer_ns, used_ns - self._used_ns
        self._writer_ns, self._used_ns = writer_ns, used_ns
        capacity_ns = elapsed_ns * self._processors
        return int(took_ns * min(busy_ns / capacity_ns, 1.0)) if took_ns > 0 and capacity_ns > 0 else 0


def _order(group: CaptureGroup) -> float:
    return group.price_ns or 0.0
