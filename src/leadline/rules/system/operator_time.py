"""The rule operator_time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import Annotated, Any, ClassVar, Final, NamedTuple

import msgspec

from leadline.profiles.operator_times import OperatorKey, OperatorTimes, OperatorTotal
from leadline.records.formatting import significant
from leadline.rules import Advice, Clear, Fired, Needs, Rule, Severity, Undecided, Verdict, Window
from leadline.rules.bounds import Share
from leadline.rules.messages import and_more, fired

_MIN_CALLS: Final = 20
"""Calls in a profile window that a 95th percentile requires."""
_MIN_SHARE: Final = 0.1
"""The growth of operators below this share of the steps is ignored."""
_MAX_WINDOWS: Final = 100
_NO_WINDOW: Final = (
    "no detailed profile window was recorded; leadline profile --detailed, or run --profile detailed:at=5"
)
_ADVICE: Final = Advice(
    "another precision, memory layout, batch size or a fused version; usually one layer does most of the work, or its "
    "inputs grow"
)


class _Suspect(NamedTuple):
    """A slow operator in the latest profile window of a worker."""

    excess: float
    """The value divided by its bound."""
    worker: str
    window: OperatorTimes
    key: OperatorKey
    time: OperatorTotal
    share: float
    growth: float | None
    """The 95th percentile relative to earlier windows; None: not above the bound, or not known."""


@dataclass(slots=True)
class _WorkerWindows:
    """The profile windows of one worker so far."""

    latest: OperatorTimes
    past_ns: dict[OperatorKey, float] = field(default_factory=dict)
    """The median of the 95th percentiles in the windows before the latest one."""
    percentiles: dict[OperatorKey, deque[float]] = field(default_factory=dict)


class OperatorTime(Rule, frozen=True, kw_only=True):
    """Fires when one operator takes most of the step time, or its calls become slower.

    Why it matters:
        An operator that takes more than half of the step is the first one to speed up: by another algorithm,
        precision, memory layout or batch size. An operator whose slowest calls become slower works on growing data,
        or shares its device.
    How it decides:
        Fires if, in the latest detailed profile window of a worker, an operator's own time (without the operators
        that it called) divided by the time of the window's steps is ``> share_threshold``; or if the 95th
        percentile of its calls is ``> growth_threshold`` times the median of those in the earlier windows, with at
        least 20 calls in each and at least 10 % of the step time. Each mode and device is evaluated separately; on a
        GPU kernels are evaluated.
    Not a number:
        Only times are evaluated.
    Blind spots:
        Only profile windows are evaluated: without one it is undecided, and growth requires two. Recording makes
        short operators look longer than they are. Traces of more than 4 MiB are not read.
    Args:
        share_threshold: Ratio of the step, 0 to 1.
        growth_threshold: Factor, >= 1.
    Source:
        Written from the documented purpose of SageMaker's ``TfOperatorTime``, of which nothing else is published.
    """

    severity: ClassVar[Severity] = "advice"

    share_threshold: Share = 0.5
    growth_threshold: Annotated[float, msgspec.Meta(ge=1)] = 1.5

    def needs(self) -> Needs:
        return Needs(scan_seconds=1.0, operators=True)

    def remember(self, memory: Any, window: Window) -> dict[str, _WorkerWindows]:
        known: dict[str, _WorkerWindows] = memory or {}
        for window_times in window.operators():
            before = known.get(window_times.worker)
            if before is None:
                known[window_times.worker] = _WorkerWindows(window_times)
            else:
                before.latest = window_times
                before.past_ns = {key: median(values) for key, values in before.percentiles.items()}
            _keep(known[window_times.worker], window_times)
        return known

    def evaluate(self, window: Window) -> Verdict:
        known: dict[str, _WorkerWindows] = window.memory
        suspects = [suspect for worker in sorted(known) for suspect in self._suspects(worker, known[worker])]
        if suspects:
            return self._fired(sorted(suspects, key=lambda suspect: (-suspect.excess, suspect.worker, suspect.key)))
        if any(worker.latest.by_operator for worker in known.values()):
            return Clear()
        why = next(
            (f"{worker.latest.window}: {worker.latest.why}" for worker in known.values() if worker.latest.why), ""
        )
        return Undecided(why or _NO_WINDOW)

    def _suspects(self, worker: str, known: _WorkerWindows) -> list[_Suspect]:
        suspects = []
        for key, time in known.latest.by_operator.items():
            steps_ns = known.latest.step_ns.get(key.mode, 0)
            share = time.own_ns / steps_ns if steps_ns > 0 else 0.0
            past_ns = known.past_ns.get(key, 0.0)
            growth = time.p95_ns / past_ns if past_ns > 0 and time.calls >= _MIN_CALLS else 0.0
            has_grown = growth > self.growth_threshold and share >= _MIN_SHARE
            if share > self.share_threshold or has_grown:
                excess = max(share / (self.share_threshold or 1.0), growth / self.growth_threshold if has_grown else 0)
                suspects.append(_Suspect(excess, worker, known.latest, key, time, share, growth if has_grown else None))
        return suspects

    def _fired(self, suspects: list[_Suspect]) -> Fired:
        worst = suspects[0]
        key, time = worst.key, worst.time
        location = f" (most in {time.module})" if time.module else ""
        steps = f"steps {worst.window.first_step:,} to {worst.window.end_step - 1:,}"
        if worst.growth is None:
            detail = f"takes {100 * worst.share:.0f} % of the time of {key.mode} {steps}{location}"
        else:
            detail = (
                f"takes {significant(time.p95_ns / 1e6)} ms (95th percentile of {time.calls:,} calls in {steps}), "
                f"{significant(worst.growth)} times as long as before{location}"
            )
        return fired(
            f"{key.operator} on {key.device} {detail}{and_more(len(suspects) - 1, 'operator')}",
            *(suspect.key.operator for suspect in suspects),
            advice=_ADVICE,
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
            worker=worst.worker,
        )


def _keep(known: _WorkerWindows, window: OperatorTimes) -> None:
    for key, time in window.by_operator.items():
        if time.calls >= _MIN_CALLS:
            known.percentiles.setdefault(key, deque(maxlen=_MAX_WINDOWS)).append(time.p95_ns)
