"""Compaction of a node's samples, sorted by channel and time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from leadline.analysis.rollup_schema import SAMPLES
from leadline.compaction.parts import RollupWriter, runs_of
from leadline.reader.segments import Range
from leadline.records.metric import Channel


def write_samples(writer: RollupWriter, ranges: Sequence[Range]) -> dict[str, Any]:
    """Write ranges of a node's samples; return the metadata."""
    numbers: dict[Channel, int] = {}
    sensors = []
    for range_ in ranges:
        indices = np.array([numbers.setdefault(channel, len(numbers)) for channel in range_.info.channels], np.int64)
        sensors.append(indices[range_.numbers("channel")])
    sensor = np.concatenate(sensors)
    times, values = (np.concatenate([range_.numbers(name) for range_ in ranges]) for name in ("time_ns", "value"))
    order = np.lexsort((times, sensor))
    sensor, times, values = sensor[order], times[order], values[order]
    channels = list(numbers)
    for number, rows in runs_of(sensor):
        channel = channels[number]
        key = (channel.kind, channel.device, channel.metric)
        writer.add(key, {SAMPLES.axis: times[rows], "total": values[rows]})
    return {"start_ns": int(times.min()), "end_ns": int(times.max())}
