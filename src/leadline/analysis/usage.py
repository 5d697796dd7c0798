"""How the machine was used: in all, by phase of the training, and at any time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.steps import PARTS, StepTable

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

PERCENTILES: Final = {"min": 0, "p50": 50, "p90": 90, "p95": 95, "p99": 99, "max": 100}
WATCHED: Final = (
    ("cpu", "total", "utilization_percent"),
    ("cpu", "total", "iowait_percent"),
    ("memory", "total", "used_percent"),
    ("gpu", None, "utilization_percent"),
    ("gpu", None, "memory_used_percent"),
    ("network", "total", "received_bytes_per_second"),
    ("network", "total", "sent_bytes_per_second"),
    ("process", "job", "cpu_percent"),
    ("process", "job", "rss_bytes"),
)
"""Kind, device (None: each) and metric of what a summary tells."""
_KEYS: Final = ["node", "kind", "device", "metric"]


def usage(system: pa.Table) -> list[dict[str, Any]]:
    """Minimum, percentiles (linear between neighbours) and maximum of each metric of a summary, node by node.

    Args:
        system: As ``Run.system_metrics`` gives it.
    """
    return [usage_row(place, values) for place, (_, values) in sorted(_series(system).items())]


def usage_row(place: tuple[str, ...], values: Floats) -> dict[str, Any]:
    """Minimum, percentiles and maximum of the values of one sensor: node, kind, device, metric."""
    found = np.percentile(values, list(PERCENTILES.values())).tolist()
    row = {**dict(zip(_KEYS, place, strict=True)), "samples": len(values)}
    return {**row, **dict(zip(PERCENTILES, found, strict=True))}


def is_watched(kind: str, device: str, metric: str) -> bool:
    """Whether a summary tells of a sensor."""
    return any((kind, metric) == (each[0], each[2]) and each[1] in (None, device) for each in WATCHED)


def mean_of(system: pa.Table, kind: str, metric: str) -> float | None:
    """The mean over all samples and devices; None: it was not read."""
    found = system.filter(pc.and_(pc.equal(system["kind"], kind), pc.equal(system["metric"], metric)))
    mean: float | None = pc.mean(found["value"]).as_py()
    return mean


def usage_by_phase(system: pa.Table, steps: StepTable, kind: str, metric: str) -> dict[str, float]:
    """The mean of a metric in each phase of the training: each sample counts for the phases of the time before it.

    Returns:
        Means by phase, of those phases that have samples.
    """
    sums, weights = np.zeros(len(PARTS)), np.zeros(len(PARTS))
    for (_, each_kind, _, each_metric), (times, values) in _series(system, everything=True).items():
        if (each_kind, each_metric) != (kind, metric) or len(times) < 2:
            continue
        taken = phases_between(steps, times[:-1], times[1:])
        sums += (taken * values[1:, None]).sum(axis=0)
        weights += taken.sum(axis=0)
    return {name: float(sums[at] / weights[at]) for at, name in enumerate(PARTS) if weights[at] > 0}


def phases_between(steps: StepTable, starts_ns: Integers, ends_ns: Integers) -> Floats:
    """How much time each phase took in some intervals, all workers together.

    The phases of a step are taken to be spread evenly over it.

    Shape:
        starts_ns, ends_ns: ``(intervals,)``; result: ``(intervals, PARTS)``, ns.
    """
    found = np.zeros((len(starts_ns), len(PARTS)))
    lengths = np.maximum(steps.duration_ns, 1)
    shares = steps.phases / lengths[:, None]
    for worker in range(len(steps.workers)):
        mine = np.flatnonzero(steps.worker == worker)
        mine = mine[np.argsort(steps.start_ns[mine], kind="stable")]
        if mine.size:
            found += _spread(steps.start_ns[mine], lengths[mine], shares[mine], starts_ns, ends_ns)
    return found


def _spread(begins: Integers, lengths: Integers, shares: Floats, starts: Integers, ends: Integers) -> Floats:
    """The integral of step functions between times: their cumulative sums, read off at both ends."""
    cumulative = np.vstack([np.zeros(shares.shape[1]), np.cumsum(shares * lengths[:, None], axis=0)])

    def until(times: Integers) -> Floats:
        place = np.searchsorted(begins, times, side="right") - 1
        is_in = place >= 0
        at = np.maximum(place, 0)
        within = np.clip(times - begins[at], 0, lengths[at])[:, None] * shares[at]
        result: Floats = np.where(is_in[:, None], cumulative[at] + within, 0.0)
        return result

    return np.maximum(until(ends) - until(starts), 0.0)


def _series(system: pa.Table, *, everything: bool = False) -> dict[tuple[str, ...], tuple[Integers, Floats]]:
    """Times and values of each sensor."""
    if not everything:
        system = system.filter(_is_watched(system, WATCHED))
    found: dict[tuple[str, ...], tuple[Integers, Floats]] = {}
    if not system.num_rows:
        return found
    names = [system[name].combine_chunks().dictionary_encode() for name in _KEYS]
    codes = np.stack([each.indices.to_numpy() for each in names], axis=1)
    unique, inverse = np.unique(codes, axis=0, return_inverse=True)
    times, values = system["time_ns"].to_numpy(), system["value"].to_numpy()
    for index, code in enumerate(unique.tolist()):
        place = tuple(str(each.dictionary[at].as_py()) for each, at in zip(names, code, strict=True))
        rows = inverse.reshape(-1) == index
        found[place] = (times[rows], values[rows])
    return found


def _is_watched(system: pa.Table, watched: Iterable[tuple[str, str | None, str]]) -> pa.ChunkedArray:
    is_any = pa.chunked_array([pa.repeat(pa.scalar(False), system.num_rows)])
    for kind, device, metric in watched:
        is_one = pc.and_(pc.equal(system["kind"], kind), pc.equal(system["metric"], metric))
        is_any = pc.or_(is_any, is_one if device is None else pc.and_(is_one, pc.equal(system["device"], device)))
    return is_any
