"""Resource utilization: by sensor, by phase of the training, of a whole cluster, and as distributions for box plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.steps import Floats, Integers, StepTable
from leadline.analysis.time_document import Utilization
from leadline.reader.window import natural_sort_key
from leadline.records.names import PARTS

_PERCENTS: Final = (5.0, 25.0, 50.0, 75.0, 95.0)
_EVEN_PERCENT: Final = 10.0
"""Means that differ by no more than this are balanced."""

_ALL: Final = ("total", "mean")

_GAP: Final = 3
"""An interval that is this many times longer than the next one is a gap."""
_KEYS: Final = ("node", "kind", "device", "metric")
ALL_NODES: Final = "all nodes"

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


def usage(system: pa.Table) -> list[Utilization]:
    """Return minimum, percentiles (interpolated linearly) and maximum of each summary metric, by node.

    Args:
        system: As returned by ``Run.system_metrics``.
    """
    chosen = system.filter(reduce(pc.or_, (_matches(system, *sensor) for sensor in SUMMARY_METRICS)))
    return [usage_row(labels, times, values) for labels, (times, values) in sorted(_series(chosen).items())]


def usage_row(labels: tuple[str, ...], times_ns: Integers | Floats, values: Floats) -> Utilization:
    """Return minimum, percentiles and maximum of the values of one sensor: node, kind, device, metric."""
    node, kind, device, metric = labels
    percentiles = np.percentile(values, list(PERCENTILES.values())).tolist()
    row = _row_of({"node": node, "kind": kind, "device": device, "metric": metric}, len(values), percentiles)
    if is_rate(metric):
        row["total_bytes"] = transferred(times_ns, values)
    return row


def _row_of(labels: Mapping[str, str], samples: int, percentiles: Sequence[float]) -> Utilization:
    row = {**labels, "samples": samples, **dict(zip(PERCENTILES, percentiles, strict=True))}
    return cast(Utilization, row)


def percentiles_of(row: Utilization) -> tuple[float, ...]:
    """Return the values of ``PERCENTILES`` in a row."""
    return row["min"], row["p50"], row["p90"], row["p95"], row["p99"], row["max"]


def transferred(times_ns: Integers | Floats, values: Floats) -> int:
    """Return the bytes that a rate adds up to.

    A sample of a rate is the mean since the one before it. The first one, and one behind a gap in which nothing was
    sampled, counts as long as the one after it.

    Shape:
        times_ns, values: ``(samples,)``, at least one, in ascending order of time.
    """
    before = np.diff(times_ns, prepend=np.iinfo(np.int64).min // 2)
    after = np.append(before[1:], np.median(before[1:]) if len(before) > 1 else 0)
    lengths = np.where(before > _GAP * after, after, before)
    return round(float((values * lengths).sum()) / 1e9)


def is_rate(metric: str) -> bool:
    """Return whether a metric is a number of bytes per second."""
    return metric.endswith("_bytes_per_second")


def is_summary_metric(kind: str, device: str, metric: str) -> bool:
    """Return whether a sensor is part of the summary."""
    return any((kind, metric) == (item[0], item[2]) and item[1] in (None, device) for item in SUMMARY_METRICS)


def mean_of(system: pa.Table, kind: str, metric: str) -> float | None:
    """Return the mean over all samples and devices; None if there is no sample."""
    samples = system.filter(_matches(system, kind, None, metric))
    mean: float | None = pc.mean(samples["value"]).as_py()
    return mean


def usage_by_phase(system: pa.Table, steps: StepTable, kind: str, metric: str) -> dict[str, float]:
    """Return the mean of a metric in each phase of the training; each sample counts for the phases before it.

    Returns:
        Means by phase, for phases with samples.
    """
    sums, weights = np.zeros(len(PARTS)), np.zeros(len(PARTS))
    for times, values in _series(system.filter(_matches(system, kind, None, metric))).values():
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


def _series(system: pa.Table) -> dict[tuple[str, ...], tuple[Integers, Floats]]:
    """Return times and values of each sensor."""
    times, values = system["time_ns"].to_numpy(), system["value"].to_numpy()
    return {tuple(labels): (times[rows], values[rows]) for *labels, rows in by_sensor(system)}


def _matches(system: pa.Table, kind: str, device: str | None, metric: str) -> pa.ChunkedArray:
    """Return which rows are those of a metric, on a device or on all devices."""
    matches = pc.and_(pc.equal(system["kind"], kind), pc.equal(system["metric"], metric))
    return matches if device is None else pc.and_(matches, pc.equal(system["device"], device))


def cluster_usage(system: pa.Table) -> list[Utilization]:
    """Return minimum, percentiles and maximum of each summary metric over all nodes and devices.

    Args:
        system: As returned by ``Digest.system``. Buckets count as many samples of their mean; minimum and maximum
            are exact.
    Returns:
        Rows as in ``analysis.usage.usage``; the node is ``all nodes``, the device ``total``, ``job`` or ``all``.
    """
    rows = []
    for kind, device, metric in SUMMARY_METRICS:
        selected = system.filter(_matches(system, kind, device, metric))
        if selected.num_rows:
            labels = {"node": ALL_NODES, "kind": kind, "device": device or "all", "metric": metric}
            rows.append(_row_of(labels, int(selected["samples"].to_numpy().sum()), _percentiles(selected)))
    return rows


def _percentiles(rows: pa.Table) -> list[float]:
    means, samples = rows["mean"].to_numpy(), rows["samples"].to_numpy()
    between = weighted_percentiles(means, samples, list(PERCENTILES.values()))[1:-1]
    return [float(rows["min"].to_numpy().min()), *between, float(rows["max"].to_numpy().max())]


def weighted_percentiles(values: Floats, weights: Integers, percents: Sequence[float]) -> list[float]:
    """Compute percentiles of weighted values, interpolated linearly.

    Shape:
        values, weights: ``(rows,)``, at least one.
    """
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(weights[order])
    positions = np.asarray(percents) / 100.0 * (ends[-1] - 1)
    low, high = (values[order][np.searchsorted(ends, side(positions), side="right")] for side in (np.floor, np.ceil))
    percentiles: list[float] = (low + (high - low) * (positions - np.floor(positions))).tolist()
    return percentiles


class SensorRows(NamedTuple):
    """The rows of a sensor."""

    node: str
    kind: str
    device: str
    metric: str
    rows: Integers
    """Row indices in the table, in ascending order of time."""


def by_sensor(system: pa.Table) -> list[SensorRows]:
    """Return the rows of each sensor, ordered by node, kind, metric and device, with totals first.

    Args:
        system: As returned by ``Run.system_metrics`` or ``Digest.system``.
    """
    if not system.num_rows:
        return []
    columns = [system[name].combine_chunks().dictionary_encode() for name in _KEYS]
    values = [column.dictionary.to_pylist() for column in columns]
    codes = np.zeros(system.num_rows, np.int64)
    for column, known in zip(columns, values, strict=True):
        codes = codes * len(known) + column.indices.to_numpy()
    order = np.lexsort((system["time_ns"].to_numpy(), codes))
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    sensors = []
    for rows in np.split(order, starts[1:]):
        node, kind, device, metric = (
            str(known[column.indices[int(rows[0])].as_py()]) for column, known in zip(columns, values, strict=True)
        )
        sensors.append(SensorRows(node, kind, device, metric, rows))
    return sorted(sensors, key=_order)


def _order(sensor: SensorRows) -> tuple[object, ...]:
    return (
        natural_sort_key(sensor.node),
        sensor.kind,
        sensor.metric,
        sensor.device not in _ALL,
        natural_sort_key(sensor.device),
    )


@dataclass(frozen=True, slots=True)
class Distribution:
    """The distribution of the values of one sensor.

    Units:
        Those of the metric.
    """

    node: str
    kind: str
    device: str
    metric: str
    samples: int
    mean: float
    min: float
    max: float
    p5: float
    p25: float
    p50: float
    p75: float
    p95: float


def distributions(system: pa.Table) -> list[Distribution]:
    """Return the distribution of each sensor, in natural order; percentiles are interpolated linearly.

    Args:
        system: As returned by ``Run.system_metrics`` or ``Digest.system``. The means of the latter are weighted by the
            number of samples; minimum and maximum are those of the samples.
    """
    result = []
    name = "value" if "value" in system.column_names else "mean"
    for sensor in by_sensor(system):
        rows = system.take(sensor.rows)
        values = rows[name].to_numpy()
        weights = rows["samples"].to_numpy() if name == "mean" else np.ones(len(values), np.int64)
        low, high = (rows[column if name == "mean" else "value"].to_numpy() for column in ("min", "max"))
        keep = np.isfinite(values)
        if not keep.any():
            continue
        values, weights = values[keep], weights[keep]
        percentiles = weighted_percentiles(values, weights, _PERCENTS)
        result.append(
            Distribution(
                sensor.node,
                sensor.kind,
                sensor.device,
                sensor.metric,
                int(weights.sum()),
                float(np.average(values, weights=weights)),
                float(np.min(low[keep])),
                float(np.max(high[keep])),
                *percentiles,
            )
        )
    return result


@dataclass(frozen=True, slots=True)
class Balance:
    """How evenly devices are used."""

    busiest: Distribution
    idlest: Distribution
    apart: float
    """The difference of their means."""

    @property
    def is_even(self) -> bool:
        return self.apart <= _EVEN_PERCENT


def balance(devices: list[Distribution]) -> Balance | None:
    """Compare devices: the busiest, the idlest, and the difference of their means; None if there is only one.

    Units:
        Those of the metric; ``is_even``: the means differ by at most 10 (percentage points).
    """
    if len(devices) < 2:
        return None
    busiest, idlest = max(devices, key=lambda device: device.mean), min(devices, key=lambda device: device.mean)
    return Balance(busiest, idlest, busiest.mean - idlest.mean)
