"""Resource utilization: overall and by phase of the training."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.steps import StepTable
from leadline.records.names import PARTS

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

PERCENTILES: Final = {"min": 0, "p50": 50, "p90": 90, "p95": 95, "p99": 99, "max": 100}
SUMMARY_METRICS: Final = (
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
"""Kind, device (None for each device) and metric of the summary metrics."""
_KEYS: Final = ["node", "kind", "device", "metric"]


def usage(system: pa.Table) -> list[dict[str, Any]]:
    """Return minimum, percentiles (interpolated linearly) and maximum of each summary metric, by node.

    Args:
        system: As returned by ``Run.system_metrics``.
    """
    return [usage_row(labels, values) for labels, (_, values) in sorted(_series(system).items())]


def usage_row(labels: tuple[str, ...], values: Floats) -> dict[str, Any]:
    """Return minimum, percentiles and maximum of the values of one sensor: node, kind, device, metric."""
    percentiles = np.percentile(values, list(PERCENTILES.values())).tolist()
    row = {**dict(zip(_KEYS, labels, strict=True)), "samples": len(values)}
    return {**row, **dict(zip(PERCENTILES, percentiles, strict=True))}


def is_summary_metric(kind: str, device: str, metric: str) -> bool:
    """Return whether a sensor is part of the summary."""
    return any((kind, metric) == (item[0], item[2]) and item[1] in (None, device) for item in SUMMARY_METRICS)


def mean_of(system: pa.Table, kind: str, metric: str) -> float | None:
    """Return the mean over all samples and devices; None if there is no sample."""
    samples = system.filter(pc.and_(pc.equal(system["kind"], kind), pc.equal(system["metric"], metric)))
    mean: float | None = pc.mean(samples["value"]).as_py()
    return mean


def usage_by_phase(system: pa.Table, steps: StepTable, kind: str, metric: str) -> dict[str, float]:
    """Return the mean of a metric in each phase of the training; each sample counts for the phases before it.

    Returns:
        Means by phase, for phases with samples.
    """
    sums, weights = np.zeros(len(PARTS)), np.zeros(len(PARTS))
    for (_, sensor_kind, _, sensor_metric), (times, values) in _series(system, everything=True).items():
        if (sensor_kind, sensor_metric) != (kind, metric) or len(times) < 2:
            continue
        durations = phases_between(steps, times[:-1], times[1:])
        sums += (durations * values[1:, None]).sum(axis=0)
        weights += durations.sum(axis=0)
    return {name: float(sums[index] / weights[index]) for index, name in enumerate(PARTS) if weights[index] > 0}


def phases_between(steps: StepTable, starts_ns: Integers, ends_ns: Integers) -> Floats:
    """Return the time of each phase in some intervals, over all workers.

    The phases of a step are assumed to be distributed evenly over it.

    Shape:
        starts_ns, ends_ns: ``(intervals,)``; result: ``(intervals, PARTS)``, ns.
    """
    times = np.zeros((len(starts_ns), len(PARTS)))
    lengths = np.maximum(steps.duration_ns, 1)
    shares = steps.phases / lengths[:, None]
    for worker in range(len(steps.workers)):
        indices = np.flatnonzero(steps.worker == worker)
        indices = indices[np.argsort(steps.start_ns[indices], kind="stable")]
        if indices.size:
            times += _integrate(steps.start_ns[indices], lengths[indices], shares[indices], starts_ns, ends_ns)
    return times


def _integrate(step_starts: Integers, lengths: Integers, shares: Floats, starts: Integers, ends: Integers) -> Floats:
    """Integrate step functions over intervals, by their cumulative sums at both ends."""
    cumulative = np.vstack([np.zeros(shares.shape[1]), np.cumsum(shares * lengths[:, None], axis=0)])

    def until(times: Integers) -> Floats:
        place = np.searchsorted(step_starts, times, side="right") - 1
        is_in = place >= 0
        at = np.maximum(place, 0)
        within = np.clip(times - step_starts[at], 0, lengths[at])[:, None] * shares[at]
        result: Floats = np.where(is_in[:, None], cumulative[at] + within, 0.0)
        return result

    return np.maximum(until(ends) - until(starts), 0.0)


def _series(system: pa.Table, *, everything: bool = False) -> dict[tuple[str, ...], tuple[Integers, Floats]]:
    """Return times and values of each sensor."""
    if not everything:
        system = system.filter(_is_any_of(system, SUMMARY_METRICS))
    series: dict[tuple[str, ...], tuple[Integers, Floats]] = {}
    if not system.num_rows:
        return series
    columns = [system[name].combine_chunks().dictionary_encode() for name in _KEYS]
    codes = np.stack([column.indices.to_numpy() for column in columns], axis=1)
    unique, inverse = np.unique(codes, axis=0, return_inverse=True)
    times, values = system["time_ns"].to_numpy(), system["value"].to_numpy()
    for index, code in enumerate(unique.tolist()):
        labels = tuple(
            str(column.dictionary[code_index].as_py()) for column, code_index in zip(columns, code, strict=True)
        )
        rows = inverse.reshape(-1) == index
        series[labels] = (times[rows], values[rows])
    return series


def _is_any_of(system: pa.Table, metrics: Iterable[tuple[str, str | None, str]]) -> pa.ChunkedArray:
    is_any = pa.chunked_array([pa.repeat(pa.scalar(False), system.num_rows)])
    for kind, device, metric in metrics:
        matches = pc.and_(pc.equal(system["kind"], kind), pc.equal(system["metric"], metric))
        is_any = pc.or_(is_any, matches if device is None else pc.and_(matches, pc.equal(system["device"], device)))
    return is_any
