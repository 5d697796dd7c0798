"""Grouping of system metrics by sensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from leadline.reader.window import natural_sort_key

if TYPE_CHECKING:
    import numpy.typing as npt

_KEYS: Final = ("node", "kind", "device", "metric")
_ALL: Final = ("total", "mean")


class SensorRows(NamedTuple):
    """The rows of a sensor."""

    node: str
    kind: str
    device: str
    metric: str
    rows: npt.NDArray[np.int64]
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
