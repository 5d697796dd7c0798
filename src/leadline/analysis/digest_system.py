"""Time buckets of system metrics, on one grid for all sensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from leadline.analysis.buckets import Groups, bucket_width_ns
from leadline.reader.interval import Sensor
from leadline.reader.window import natural_sort_key

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

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
Names = str | Sequence[str] | None


@dataclass(frozen=True, slots=True)
class Sums:
    """Samples, or sums of samples, in any order."""

    sensor: Integers
    """Index into a list of sensors, ``(rows,)``."""
    time_ns: Integers
    """The time of the sample, or the start of its bucket."""
    total: Floats
    min: Floats
    max: Floats
    samples: Integers

    @classmethod
    def of_samples(cls, sensor: Integers, time_ns: Integers, values: Floats) -> Sums:
        """Create from individual samples."""
        return cls(sensor, time_ns, values, values, values, np.ones(len(values), np.int64))

    def __len__(self) -> int:
        return len(self.sensor)

    def where(self, keep: npt.NDArray[np.bool_]) -> Sums:
        """Return selected rows."""
        return Sums(
            self.sensor[keep],
            self.time_ns[keep],
            self.total[keep],
            self.min[keep],
            self.max[keep],
            self.samples[keep],
        )


def sensor_order(sensor: Sensor) -> tuple[object, ...]:
    """Return a sort key that orders ``core2`` before ``core10``."""
    return natural_sort_key(sensor.node), sensor.kind, sensor.metric, natural_sort_key(sensor.device)


def joined_sums(parts: Sequence[Sums]) -> Sums:
    """Concatenate sums."""
    return Sums(*(np.concatenate([getattr(part, name) for part in parts]) for name in Sums.__slots__))


def buckets(rows: Sums, sensors: Sequence[Sensor], width_ns: int) -> pa.Table:
    """Return rows as ``SYSTEM_BUCKETS``, by sensor in the given order."""
    if not len(rows):
        return SYSTEM_BUCKETS.empty_table()
    slots = rows.time_ns // width_ns
    first, count = int(slots.min()), int(slots.max() - slots.min()) + 1
    groups = Groups(rows.sensor * count + (slots - first))
    samples, sensor_indices = groups.sum(rows.samples), pa.array(groups.keys // count)
    texts = [
        pa.array([getattr(sensor, name) for sensor in sensors], pa.string()).take(sensor_indices)
        for name in Sensor._fields
    ]
    middle = (groups.keys % count + first) * width_ns + width_ns // 2
    columns = (middle, groups.sum(rows.total) / samples, groups.min(rows.min), groups.max(rows.max), samples)
    return pa.table([*texts, *columns], schema=SYSTEM_BUCKETS)


def grid(span: tuple[int, int], start_ns: int | None, end_ns: int | None, points: int) -> tuple[int, int, int]:
    """Return the bucket width of an interval, the start of its first and the end of its last bucket."""
    start = span[0] if start_ns is None else start_ns
    end = span[1] + 1 if end_ns is None else end_ns
    width = bucket_width_ns(end - start, points)
    return width, start // width * width, -(-end // width) * width
