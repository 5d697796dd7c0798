"""The rule operator_time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import msgspec

from leadline.reader.operator_times import OperatorKey, OperatorTimes, OperatorTotal
from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more

if TYPE_CHECKING:
    from leadline.reader.window import Window

_FEWEST_CALLS: Final = 20
"""In a window, for a 95th percentile to say something."""
_LEAST_SHARE: Final = 0.01
"""Of the steps: what takes less may grow."""
_MOST_WINDOWS: Final = 100
_NO_WINDOW: Final = "no detailed window was recorded; leadline profile --detailed, or run --profile detailed:at=5"


class _Suspect(NamedTuple):
    """An operator in the latest window of a worker."""

    excess: float
    """By how much it is beyond its bound: the quotient."""
    worker: str
    window: OperatorTimes
    key: OperatorKey
    time: OperatorTotal
    share: float
    growth: float | None
    """The 95th percentile against its own past; None: not beyond the bound, or not known."""


@dataclass(slots=True)
class _Known:
    """What the windows of one worker were so far."""

    latest: OperatorTimes
    past_ns: dict[OperatorKey, float] = field(default_factory=dict)
    """The median of the 95th percentiles in the windows before the latest."""
    percentiles: dict[OperatorKey, deque[float]] = field(default_factory=dict)


class OperatorTime(Rule, frozen=True, kw_only=True):
    """Fires when one operator takes most of the step, or its calls take longer than they did.

    Why it matters:
        An operator that takes more than half of the step is what to make faster first: another algorithm, precision,
        memory layout or batch size. One whose slowest calls grow works on data that grow, or shares its device.
    How it decides:
        In the latest detailed window of each worker, an operator's own time (without the operators that it called)
        divided by the time of the window's steps is ``> share_threshold``; or the 95th percentile of its calls is ``>
        growth_threshold`` times the median of those in the windows before, where there are at least 20 calls in each
        and it takes at least 1 % of the steps. Each mode and device by itself; of a GPU kernels are judged.
    Not a number:
        Looks at no numbers but times.
    Blind spots:
        Only what windows recorded is judged: without one it is undecided, and growth takes two. Recording makes short
        operators look longer than they are. Traces of more than 4 MiB are not read.
    Args:
        share_threshold: Ratio of the step, 0 to 1.
        growth_threshold: Factor, >= 1.
    Source:
        Written from the documented purpose of SageMaker's ``TfOperatorTime``, of which nothing else is published.
    """

    share_threshold: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    growth_threshold: Annotated[float, msgspec.Meta(ge=1)] = 1.5

    def needs(self) -> Needs:
        return Needs(scan_seconds=1.0, operators=True)

    def remember(self, memory: Any, window: Window) -> dict[str, _Known]:
        known: dict[str, _Known] = memory or {}
        for each in window.operators():
            before = known.get(each.worker)
            if before is None:
                known[each.worker] = _Known(each)
            else:
                before.latest = each
                before.past_ns = {key: median(values) for key, values in before.percentiles.items()}
            _keep(known[each.worker], each)
        return known

    def evaluate(self, window: Window) -> Verdict:
        known: dict[str, _Known] = window.memory
        found = [each for worker in sorted(known) for each in self._suspects(worker, known[worker])]
        if found:
            return self._fired(sorted(found, key=lambda each: (-each.excess, each.worker, each.key)))
        if any(each.latest.by_operator for each in known.values()):
            return Clear()
        why = next((f"{each.latest.window}: {each.latest.why}" for each in known.values() if each.latest.why), "")
        return Undecided(why or _NO_WINDOW)

    def _suspects(self, worker: str, known: _Known) -> list[_Suspect]:
        found = []
        for key, time in known.latest.by_operator.items():
            whole_ns = known.latest.step_ns.get(key.mode, 0)
            share = time.own_ns / whole_ns if whole_ns > 0 else 0.0
            past_ns = known.past_ns.get(key, 0.0)
            growth = time.p95_ns / past_ns if past_ns > 0 and time.calls >= _FEWEST_CALLS else 0.0
            has_grown = growth > self.growth_threshold and share >= _LEAST_SHARE
            if share > self.share_threshold or has_grown:
                excess = max(share / (self.share_threshold or 1.0), growth / self.growth_threshold if has_grown else 0)
                found.append(_Suspect(excess, worker, known.latest, key, time, share, growth if has_grown else None))
        return found

    def _fired(self, found: list[_Suspect]) -> Fired:
        worst = found[0]
        key, time = worst.key, worst.time
        where = f" (most in {time.module})" if time.module else ""
        steps = f"steps {worst.window.first_step:,} to {worst.window.end_step - 1:,}"
        if worst.growth is None:
            what = f"takes {100 * worst.share:.0f} % of the time of {key.mode} {steps}{where}"
        else:
            what = (
                f"takes {time.p95_ns / 1e6:.3g} ms (95th percentile of {time.calls:,} calls in {steps}), "
                f"{worst.growth:.3g} times as long as before{where}"
            )
        return Fired(
            f"{key.operator} on {key.device} {what}{and_more(len(found) - 1, 'operator')}",
            tensors=tuple(dict.fromkeys(each.key.operator for each in found)),
            evidence={
                "operator": key.operator,
                "device": key.device,
                "mode": key.mode,
                "module": time.module,
                "share": worst.share,
                "growth": worst.growth,
                "p95_ms": time.p95_ns / 1e6,
                "calls": time.calls,
                "window": worst.window.window,
            },
            suggestion="another precision, memory layout, batch size or a fused form of it; usually one layer does "
            "most of the work, or its inputs grow",
            worker=worst.worker,
        )


def _keep(known: _Known, window: OperatorTimes) -> None:
    for key, time in window.by_operator.items():
        if time.calls >= _FEWEST_CALLS:
            known.percentiles.setdefault(key, deque(maxlen=_MOST_WINDOWS)).append(time.p95_ns)
