"""Distribution of system metrics by node and device, for box plots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from leadline.analysis.sensors import by_sensor

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_PERCENTS: Final = (5.0, 25.0, 50.0, 75.0, 95.0)
_EVEN_PERCENT: Final = 10.0
"""Means that differ by no more than this are balanced."""


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
        percentiles = _percentiles(values, weights, _PERCENTS)
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


def balance(devices: list[Distribution]) -> dict[str, Any] | None:
    """Compare devices: the busiest, the idlest, and the difference of their means; None if there is only one.

    Units:
        Those of the metric; ``is_even``: the means differ by at most 10 (percentage points).
    """
    if len(devices) < 2:
        return None
    busiest, idlest = max(devices, key=lambda device: device.mean), min(devices, key=lambda device: device.mean)
    apart = busiest.mean - idlest.mean
    return {"busiest": busiest, "idlest": idlest, "apart": apart, "is_even": apart <= _EVEN_PERCENT}


def _percentiles(values: Floats, weights: npt.NDArray[np.int64], percents: tuple[float, ...]) -> list[float]:
    """Compute percentiles of weighted values."""
    order = np.argsort(values, kind="stable")
    ascending, cumulative = values[order], np.cumsum(weights[order])
    positions = np.asarray(percents) / 100.0 * (cumulative[-1] - 1)
    low, high = np.floor(positions), np.ceil(positions)
    below = ascending[np.searchsorted(cumulative, low, side="right")]
    above = ascending[np.searchsorted(cumulative, high, side="right")]
    percentiles: list[float] = (below + (above - below) * (positions - low)).tolist()
    return percentiles
