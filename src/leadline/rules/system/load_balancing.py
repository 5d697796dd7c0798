"""The rule load_balancing."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, ClassVar, Final

from leadline.reader.interval import Sensor
from leadline.rules import Advice, Clear, MetricNeed, NotApplicable, Undecided, Verdict, Window
from leadline.rules.bounds import NonNegativeInt, Share
from leadline.rules.messages import fired, too_few
from leadline.rules.system.system_rule import GPU, SystemRule, device_name, without_gpu

_BINS: Final = 10
_BIN_PERCENT: Final = 100.0 / _BINS
_MIN_SAMPLES: Final = 10
_ADVICE: Final = Advice(
    "{one_process_per_gpu}, shards of the same size, stages of the same weight; usually one GPU does work that the "
    "others hand to it"
)


@dataclass(slots=True)
class _Load:
    """The distribution of a GPU's utilization."""

    counts: list[int] = field(default_factory=lambda: [0] * _BINS)
    """Samples by tenth of the utilization."""
    total: float = 0.0
    seen: int = 0

    @property
    def judged(self) -> int:
        return sum(self.counts)


class LoadBalancing(SystemRule, frozen=True, kw_only=True):
    """Fires when the GPUs of a job have very different utilizations.

    Why it matters:
        With several GPUs the most loaded one sets the pace, and the others wait for it. Common causes: one GPU also
        gathers outputs and losses (``DataParallel``), uneven shards, a pipeline stage that is too heavy.
    How it decides:
        The utilization of each GPU is a histogram of ten bins, over all samples after the first ``patience`` (at
        least 10 each). The distance of two GPUs is half the sum of the absolute differences of their shares: 0 for
        equal histograms, 1 for disjoint ones. Fires if the distance of any two is above ``threshold``.
    Not a number:
        A metric that cannot be read has no samples.
    Blind spots:
        Two GPUs that take turns have the same histogram. Of
        two GPUs with utilizations close to a bin edge, a small difference counts as a large one.
    Args:
        threshold: Share of samples, 0 to 1.
        patience: Samples of each GPU skipped at the start, >= 0.
    Source:
        SageMaker developer guide, "LoadBalancing" (``smdebug_rulesconfig`` 1.0.1 has patience 1000); the distance is
        the total variation, ours.
    """

    metrics: ClassVar[tuple[MetricNeed, ...]] = (GPU,)

    threshold: Share = 0.5
    patience: NonNegativeInt = 10

    def remember(self, memory: Any, window: Window) -> dict[Sensor, _Load]:
        loads: dict[Sensor, _Load] = memory or {}
        for batch in window.samples(GPU.kind, GPU.metric):
            load = loads.setdefault(batch.sensor, _Load())
            values = batch.values[max(0, self.patience - load.seen) :].tolist()
            load.seen += len(batch.values)
            load.total += sum(values)
            for value in values:
                load.counts[min(max(int(value // _BIN_PERCENT), 0), _BINS - 1)] += 1
        return loads

    def evaluate(self, window: Window) -> Verdict:
        loads: dict[Sensor, _Load] = window.memory
        judged = {sensor: load for sensor, load in sorted(loads.items()) if load.judged >= _MIN_SAMPLES}
        if len(judged) < 2:
            return self._undecided(loads, window)
        distance, one, other = max(
            ((_distance(judged[one], judged[other]), one, other) for one, other in combinations(judged, 2)),
            key=lambda pair: pair[0],
        )
        if distance <= self.threshold:
            return Clear()
        means = {device_name(sensor): load.total / load.judged for sensor, load in judged.items()}
        busy, idle = sorted((device_name(one), device_name(other)), key=lambda gpu: -means[gpu])
        return fired(
            f"the mean utilization of {busy} is {means[busy]:.0f} %, of {idle} {means[idle]:.0f} %: "
            f"{100 * distance:.0f} % of their samples have no match",
            busy,
            idle,
            advice=_ADVICE,
            evidence={"distance": distance, "threshold": self.threshold, "mean_percent": means},
        )

    def _undecided(self, loads: dict[Sensor, _Load], window: Window) -> NotApplicable | Undecided:
        if not loads:
            return without_gpu(window)
        if len(loads) == 1:
            return NotApplicable("one GPU")
        return too_few(min(load.seen for load in loads.values()), self.patience + _MIN_SAMPLES, "samples per GPU")


def _distance(one: _Load, other: _Load) -> float:
    """Return half the sum of the absolute differences of the shares."""
    pairs = zip(one.counts, other.counts, strict=True)
    return sum(abs(a / one.judged - b / other.judged) for a, b in pairs) / 2
