"""The rule load_balancing."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from leadline.reader.interval import Sensor
from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.system.device_metrics import GPU, NO_GPU, SCAN_SECONDS, device_name

if TYPE_CHECKING:
    from leadline.reader.window import Window

_BINS: Final = 10
_BIN_PERCENT: Final = 100.0 / _BINS
_FEWEST: Final = 10


@dataclass(slots=True)
class _Load:
    counts: list[int] = field(default_factory=lambda: [0] * _BINS)
    """Samples by tenth of the utilization."""
    total: float = 0.0
    seen: int = 0

    @property
    def judged(self) -> int:
        return sum(self.counts)


class LoadBalancing(Rule, frozen=True, kw_only=True):
    """Fires when the GPUs of a job are used very differently.

    Why it matters:
        With several GPUs the most loaded one sets the pace, and the others are paid for waiting: one that also
        gathers outputs and losses (``DataParallel``), uneven shards, a stage of a pipeline that is too heavy.
    How it decides:
        Each GPU's utilization as a histogram of ten bins, over all samples after the first ``patience`` (at least 10
        each). Two GPUs differ by half the sum of the absolute differences of their shares: 0 alike, 1 nothing in
        common. Fires when some two differ by more than ``threshold``.
    Not a number:
        What could not be read has no sample.
    Blind spots:
        One GPU has nothing to be balanced with: undecided. Two that take turns have the same histogram. A GPU whose
        utilization straddles the edge of a bin differs from its neighbour by little that counts as much.
    Args:
        threshold: Share of samples, 0 to 1.
        patience: Samples of each GPU passed over at the start, >= 0.
    Source:
        SageMaker developer guide, "LoadBalancing" (``smdebug_rulesconfig`` 1.0.1 has patience 1000); the distance is
        the total variation, ours.
    """

    threshold: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    patience: Annotated[int, msgspec.Meta(ge=0)] = 10

    def needs(self) -> Needs:
        return Needs(scan_seconds=SCAN_SECONDS, metrics=(GPU,))

    def remember(self, memory: Any, window: Window) -> dict[Sensor, _Load]:
        loads: dict[Sensor, _Load] = memory or {}
        for each in window.samples(GPU.kind, GPU.metric):
            load = loads.setdefault(each.sensor, _Load())
            values = each.values[max(0, self.patience - load.seen) :].tolist()
            load.seen += len(each.values)
            load.total += sum(values)
            for value in values:
                load.counts[min(max(int(value // _BIN_PERCENT), 0), _BINS - 1)] += 1
        return loads

    def evaluate(self, window: Window) -> Verdict:
        loads: dict[Sensor, _Load] = window.memory
        judged = {sensor: each for sensor, each in sorted(loads.items()) if each.judged >= _FEWEST}
        if len(judged) < 2:
            return Undecided(self._why(loads))
        distance, one, other = max(
            ((_distance(judged[one], judged[other]), one, other) for one, other in combinations(judged, 2)),
            key=lambda each: each[0],
        )
        if distance <= self.threshold:
            return Clear()
        means = {device_name(each): load.total / load.judged for each, load in judged.items()}
        busy, idle = sorted((device_name(one), device_name(other)), key=lambda each: -means[each])
        return Fired(
            f"{busy} is used to {means[busy]:.0f} %, {idle} to {means[idle]:.0f} % on average: "
            f"{100 * distance:.0f} % of their samples have no match",
            tensors=(busy, idle),
            evidence={"distance": distance, "threshold": self.threshold, "mean_percent": means},
            suggestion="DistributedDataParallel in place of DataParallel, shards of the same size, stages of the same "
            "weight; usually one GPU does what the others hand to it",
        )

    def _why(self, loads: dict[Sensor, _Load]) -> str:
        if not loads:
            return NO_GPU
        return "only one GPU was read" if len(loads) == 1 else f"fewer than {self.patience + _FEWEST:,} samples a GPU"


def _distance(one: _Load, other: _Load) -> float:
    """Half the sum of the differences of their shares."""
    pairs = zip(one.counts, other.counts, strict=True)
    return sum(abs(mine / one.judged - theirs / other.judged) for mine, theirs in pairs) / 2
