"""The time breakdown of a run as it is in JSON: the ``time`` of ``leadline show --json``."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from leadline.records.json_object import JsonObject


class PhaseTime(TypedDict):
    """A phase of the steps; the share is of all of them."""

    phase: str
    seconds: float
    share: float


class Utilization(TypedDict):
    """Minimum, percentiles and maximum of a metric of a device."""

    node: str
    kind: str
    device: str
    metric: str
    samples: int
    min: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float
    total_bytes: NotRequired[int]
    """What a rate adds up to."""


class JobPart(TypedDict):
    """A phase of the job; its share is None if the job took no time."""

    seconds: float
    share: float | None


class JobDocument(TypedDict):
    """See ``JobPhases``."""

    started_ns: int
    ended_ns: int
    loop_started_ns: int | None
    loop_ended_ns: int | None
    seconds: float
    initialization: JobPart
    training_loop: JobPart
    finalization: JobPart
    split: dict[str, float]


class ThroughputDocument(TypedDict, total=False):
    """See ``Throughput``; what is not known is missing."""

    steps_per_second: float
    step_ms: dict[str, float]
    input_wait_share: float
    samples_per_second: float
    flops_per_second: float
    mfu: float
    peak_flops_per_second: float


class SlowRankDocument(TypedDict):
    """See ``SlowRank``."""

    rank: int
    worker: str
    times: float
    lost_ms: float
    phase: str


class RanksDocument(TypedDict):
    """See ``Ranks``; ``by_rank`` has the time of each phase."""

    steps: int
    by_rank: dict[str, dict[str, float]]
    straggler: SlowRankDocument | None


BottleneckDocument = TypedDict(
    "BottleneckDocument",
    {"kind": str, "phase": str, "message": str, "evidence": JsonObject, "try": str},
)
"""See ``Bottleneck``."""
OverloadDocument = TypedDict("OverloadDocument", {"share": float, "message": str, "try": str})
"""See ``Overload``."""


class TimeDocument(TypedDict):
    """See ``TimeBreakdown``; ``steps`` counts those of each mode."""

    job: JobDocument
    steps: dict[str, int]
    phases: list[PhaseTime]
    throughput: ThroughputDocument
    usage: list[Utilization]
    ranks: RanksDocument | None
    bound: BottleneckDocument | None
    overload: OverloadDocument | None
