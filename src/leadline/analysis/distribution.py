"""How a metric of the machine is spread: by node and device, with what a box plot shows of it."""

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
"""Means that lie no further apart are even."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """The values of one sensor.

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
    """How each sensor's values are spread, in natural order; percentiles are linear between neighbours.

    Args:
        system: As ``Run.system_metrics`` or ``Digest.system`` gives it. The means of the latter count as often as
            samples were put together; least and most are those of the samples.
    """
    found = []
    name = "value" if "value" in system.column_names else "mean"
    for sensor in by_sensor(system):
        rows = system.take(sensor.rows)
        values = rows[name].to_numpy()
        weights = rows["samples"].to_numpy() if name == "mean" else np.ones(len(values), np.int64)
        low, high = (rows[each if name == "mean" else "value"].to_numpy() for each in ("min", "max"))
        keep = np.isfinite(values)
        if not keep.any():
            continue
        values, weights = values[keep], weights[keep]
        marks = _percentiles(values, weights, _PERCENTS)
        found.append(
            Distribution(
                sensor.node,
                sensor.kind,
                sensor.device,
                sensor.metric,
                int(weights.sum()),
                float(np.average(values, weights=weights)),
                float(np.min(low[keep])),
                float(np.max(high[keep])),
                *marks,
            )
        )
    return found


def balance(found: list[Distribution]) -> dict[str, Any] | None:
    """Whether devices were used alike: the busiest, the idlest, and how far apart their means lie; None: only one.

    Units:
        Those of the metric; ``is_even``: not more than 10 (of per cent) apart.
    """
    if len(found) < 2:
        return None
    busiest, idlest = max(found, key=lambda each: each.mean), min(found, key=lambda each: each.mean)
    apart = busiest.mean - idlest.mean
    return {"busiest": busiest, "idlest": idlest, "apart": apart, "is_even": apart <= _EVEN_PERCENT}


def _percentiles(values: Floats, weights: npt.NDArray[np.int64], percents: tuple[float, ...]) -> list[float]:
    """As if each value stood there as often as it weighs."""
    order = np.argsort(values, kind="stable")
    ascending, until = values[order], np.cumsum(weights[order])
    places = np.asarray(percents) / 100.0 * (until[-1] - 1)
    low, high = np.floor(places), np.ceil(places)
    below = ascending[np.searchsorted(until, low, side="right")]
    above = ascending[np.searchsorted(until, high, side="right")]
    between: list[float] = (below + (above - below) * (places - low)).tolist()
    return between
