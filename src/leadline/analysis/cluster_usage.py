"""How all nodes of a run together used each resource: what ``analysis.usage`` tells of one, told of all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.usage import PERCENTILES, WATCHED

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

ALL_NODES: Final = "all nodes"


def usage_in_all(system: pa.Table) -> list[dict[str, Any]]:
    """Minimum, percentiles and maximum of each metric of a summary over all nodes and devices.

    Args:
        system: As ``Digest.system`` gives it. Where samples were put together their mean counts as often as they
            are; minimum and maximum are exact.
    Returns:
        Rows as of ``analysis.usage.usage``; their node is ``all nodes``, their device ``total``, ``job`` or ``all``.
    """
    rows = []
    for kind, device, metric in WATCHED:
        is_one = pc.and_(pc.equal(system["kind"], kind), pc.equal(system["metric"], metric))
        if device is not None:
            is_one = pc.and_(is_one, pc.equal(system["device"], device))
        found = system.filter(is_one)
        if found.num_rows:
            place = {"node": ALL_NODES, "kind": kind, "device": device or "all", "metric": metric}
            rows.append({**place, **_spread(found)})
    return rows


def _spread(rows: pa.Table) -> Mapping[str, Any]:
    means, samples = rows["mean"].to_numpy(), rows["samples"].to_numpy()
    found = weighted_percentiles(means, samples, list(PERCENTILES.values()))
    told = dict(zip(PERCENTILES, found, strict=True))
    ends = {"min": float(rows["min"].to_numpy().min()), "max": float(rows["max"].to_numpy().max())}
    return {"samples": int(samples.sum()), **told, **ends}


def weighted_percentiles(values: Floats, weights: npt.NDArray[np.int64], percents: list[int]) -> list[float]:
    """Percentiles, linear between neighbours, of values that stand for so many each.

    Shape:
        values, weights: ``(rows,)``, at least one.
    """
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(weights[order])
    places = np.asarray(percents) / 100.0 * (ends[-1] - 1)
    low, high = (values[order][np.searchsorted(ends, side(places), side="right")] for side in (np.floor, np.ceil))
    told: list[float] = (low + (high - low) * (places - np.floor(places))).tolist()
    return told
