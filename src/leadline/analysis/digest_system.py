"""Time buckets of system metrics, on one grid for all sensors."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import Final

import pyarrow as pa

from leadline.analysis.segment_rows import SegmentSamples
from leadline.analysis.steps import Floats
from leadline.analysis.stored_rows import StoredRows, bucket_width_ns
from leadline.reader.interval import Sensor
from leadline.reader.rollups import SAMPLES, Key
from leadline.reader.tables import with_text_columns
from leadline.reader.window import natural_sort_key

SYSTEM_BUCKETS: Final = pa.schema(
    [
        ("node", pa.string()),
        ("kind", pa.string()),
        ("device", pa.string()),
        ("metric", pa.string()),
        ("time_ns", pa.int64()),
        ("mean", pa.float64()),
        ("min", pa.float64()),
        ("max", pa.float64()),
        ("samples", pa.int64()),
    ]
)
_KEY: Final = ("kind", "device", "metric")
_SENSORS_AT_ONCE: Final = 8
"""Sensors whose single samples are read together: those of a day take 1.4 MB each."""
Names = str | Sequence[str] | None


class StoredSamples(StoredRows[SegmentSamples]):
    """All samples of a run."""

    def __init__(self, run: str) -> None:
        super().__init__(run, SAMPLES, lambda stream: SegmentSamples(stream.ranges))

    def sensors(self) -> list[Sensor]:
        """Return all sensors, in natural order."""
        sensors = [Sensor(name, *key) for name, stream in self.streams.items() for key in stream.keys]
        return sorted(sensors, key=sensor_order)

    def buckets(self, sensors: Sequence[Sensor], width_ns: int, low: int | None, high: int | None) -> pa.Table:
        """Return the buckets of some sensors, in natural order, as ``SYSTEM_BUCKETS``."""
        tables = [SYSTEM_BUCKETS.empty_table()]
        for node, of_node in groupby(sensors, key=lambda sensor: sensor.node):
            keys = [key_of(sensor) for sensor in of_node]
            rows = self.streams[node].buckets(keys, width_ns, low, high)
            places = pa.array(rows["key"])
            columns = {
                **{name: pa.array(names, pa.string()).take(places) for name, *names in zip(_KEY, *keys, strict=True)},
                "time_ns": rows["time_ns"] + width_ns // 2,
                "mean": rows["total"] / rows["samples"],
                **{name: rows[name] for name in ("least", "most", "samples")},
            }
            tables.append(with_text_columns(pa.table(columns), SYSTEM_BUCKETS, node))
        return pa.concat_tables(tables).combine_chunks()

    def values(
        self, sensors: Collection[Sensor], low: int | None, high: int | None, column: str = "total"
    ) -> Iterator[tuple[Sensor, Floats]]:
        """Yield the single samples of some sensors, sorted by sensor, or with ``time_ns`` their times."""
        for node, chosen in groupby(sorted(sensors), key=lambda sensor: sensor.node):
            of_node = list(chosen)
            for first in range(0, len(of_node), _SENSORS_AT_ONCE):
                some = of_node[first : first + _SENSORS_AT_ONCE]
                keys = [key_of(sensor) for sensor in some]
                yield from zip(some, self.streams[node].columns(keys, column, low, high), strict=True)


def key_of(sensor: Sensor) -> Key:
    """Return the key of a sensor's samples."""
    return sensor.kind, sensor.device, sensor.metric


def matching(sensors: Collection[Sensor], *, kind: Names, metric: Names, device: Names, node: Names) -> list[Sensor]:
    """Return the sensors that match all criteria."""
    criteria = {"kind": kind, "metric": metric, "device": device, "node": node}
    accepted = {key: {names} if isinstance(names, str) else set(names) for key, names in criteria.items() if names}
    return [sensor for sensor in sensors if all(getattr(sensor, key) in names for key, names in accepted.items())]


def sensor_order(sensor: Sensor) -> tuple[object, ...]:
    """Return a sort key that orders ``core2`` before ``core10``."""
    return natural_sort_key(sensor.node), sensor.kind, sensor.metric, natural_sort_key(sensor.device)


def grid(span: tuple[int, int], start_ns: int | None, end_ns: int | None, points: int) -> tuple[int, int, int]:
    """Return the bucket width of an interval, the start of its first and the end of its last bucket."""
    start = span[0] if start_ns is None else start_ns
    end = span[1] + 1 if end_ns is None else end_ns
    width = bucket_width_ns(end - start, points)
    return width, start // width * width, -(-end // width) * width
