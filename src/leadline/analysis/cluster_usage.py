"""Resource utilization of a whole cluster: ``analysis.usage`` over all nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.usage import PERCENTILES, SUMMARY_METRICS

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

ALL_NODES: Final = "all nodes"


def cluster_usage(system: pa.Table) -> list[dict[str, Any]]:
    """Return minimum, percentiles and maximum of each summary metric over all nodes and devices.

    Args:
        system: As returned by ``Digest.system``. Buckets count as many samples of their mean; minimum and maximum
            are exact.
    Returns:
        Rows as in ``analysis.usage.usage``; the node is ``all nodes``, the device ``total``, ``job`` or ``all``.
    """
    rows = []
    for kind, device, metric in SUMMARY_METRICS:
        matches = pc.and_(pc.equal(system["kind"], kind), pc.equal(system["metric"], metric))
        if device is not None:
            matches = pc.and_(matches, pc.equal(system["device"], device))
        selected = system.filter(matches)
        if selected.num_rows:
            labels = {"node": ALL_NODES, "kind": kind, "device": device or "all", "metric": metric}
            rows.append({**labels, **_percentiles(selected)})
    return rows


def _percentiles(rows: pa.Table) -> Mapping[str, Any]:
    means, samples = rows["mean"].to_numpy(), rows["samples"].to_numpy()
    percentiles = weighted_percentiles(means, samples, list(PERCENTILES.values()))
    by_name = dict(zip(PERCENTILES, percentiles, strict=True))
    limits = {"min": float(rows["min"].to_numpy().min()), "max": float(rows["max"].to_numpy().max())}
    return {"samples": int(samples.sum()), **by_name, **limits}


def weighted_percentiles(values: Floats, weights: npt.NDArray[np.int64], percents: list[int]) -> list[float]:
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
