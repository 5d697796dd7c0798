"""The rows of a table of system metrics, sensor by sensor."""

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
    """Of which sensor which rows are."""

    node: str
    kind: str
    device: str
    metric: str
    rows: npt.NDArray[np.int64]
    """Their places in the table, ascending in time."""


def by_sensor(system: pa.Table) -> list[SensorRows]:
    """The rows of each sensor: nodes in natural order, then kind and metric, then devices with the total first.

    Args:
        system: As ``Run.system_metrics`` or ``Digest.system`` gives it.
    """
    if not system.num_rows:
        return []
    columns = [system[name].combine_chunks().dictionary_encode() for name in _KEYS]
    words = [each.dictionary.to_pylist() for each in columns]
    codes = np.zeros(system.num_rows, np.int64)
    for each, known in zip(columns, words, strict=True):
        codes = codes * len(known) + each.indices.to_numpy()
    order = np.lexsort((system["time_ns"].to_numpy(), codes))
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    found = []
    for rows in np.split(order, starts[1:]):
        node, kind, device, metric = (
            str(known[each.indices[int(rows[0])].as_py()]) for each, known in zip(columns, words, strict=True)
        )
        found.append(SensorRows(node, kind, device, metric, rows))
    return sorted(found, key=_order)


def _order(each: SensorRows) -> tuple[object, ...]:
    return natural_sort_key(each.node), each.kind, each.metric, each.device not in _ALL, natural_sort_key(each.device)
