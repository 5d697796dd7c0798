"""Samples of a node, sorted by sensor and time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from leadline.analysis.rollup_schema import SAMPLES
from leadline.compaction.parts import FormWriter, runs_of
from leadline.reader.bulk import Range
from leadline.records.metric import Channel


def write_samples(writer: FormWriter, ranges: Sequence[Range]) -> dict[str, Any]:
    """Write what was read of a node's samples; what there is to say of it."""
    numbers: dict[Channel, int] = {}
    sensors = []
    for each in ranges:
        places = np.array([numbers.setdefault(one, len(numbers)) for one in each.info.channels], np.int64)
        sensors.append(places[each.numbers("channel")])
    sensor = np.concatenate(sensors)
    times, values = (np.concatenate([each.numbers(name) for each in ranges]) for name in ("time_ns", "value"))
    order = np.lexsort((times, sensor))
    sensor, times, values = sensor[order], times[order], values[order]
    channels = list(numbers)
    for number, rows in runs_of(sensor):
        channel = channels[number]
        key = (channel.kind, channel.device, channel.metric)
        writer.add(key, {SAMPLES.axis: times[rows], "total": values[rows]})
    return {"start_ns": int(times.min()), "end_ns": int(times.max())}
