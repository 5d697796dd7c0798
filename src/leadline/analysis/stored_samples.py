"""Stored samples of a run: compacted files and the newest batches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from leadline.analysis.digest_system import Names, Sums, joined_sums
from leadline.analysis.rollup_schema import SAMPLES, sums_of_columns
from leadline.analysis.streams import Stream, Streams
from leadline.reader.compact import ParquetPart
from leadline.reader.interval import Sensor
from leadline.reader.segments import Range
from leadline.records.metric import Channel

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Tail:
    """The newest samples of a node."""

    channel: Integers
    """Index into ``channels``."""
    time_ns: Integers
    values: Floats
    channels: tuple[Channel, ...]


class StoredSamples:
    """All samples of a run."""

    def __init__(self, run: str) -> None:
        self._streams = Streams(run, SAMPLES)
        self._tails: dict[str, tuple[int, _Tail]] = {}

    @property
    def streams(self) -> Streams:
        """The underlying streams."""
        return self._streams

    def sensors(self) -> list[Sensor]:
        """Return all sensors."""
        sensors: dict[Sensor, None] = {}
        for stream in self._streams.all.values():
            compacted = [Channel(*key) for part in stream.parts for key in part.keys]
            sensors |= {Sensor.of(stream.name, channel): None for channel in (*compacted, *self._tail(stream).channels)}
        return list(sensors)

    def latest_ns(self) -> int | None:
        """Return the time of the last sample."""
        tails = [self._tail(stream).time_ns for stream in self._streams.all.values()]
        ends = [int(times.max()) for times in tails if len(times)]
        return max([*ends, self._streams.latest_ns() or 0], default=None) or None

    def sums(self, sensors: Sequence[Sensor], width_ns: int, low: int | None, high: int | None) -> Sums:
        """Return samples, or buckets that can be merged to ``width_ns``; sensors are indices into ``sensors``."""
        parts = [_empty_sums()]
        for stream in self._streams.all.values():
            selected = {
                (sensor.kind, sensor.device, sensor.metric): index
                for index, sensor in enumerate(sensors)
                if sensor[0] == stream.name
            }
            for part in stream.parts if selected else ():
                parts += _read_part(part, selected, width_ns, low, high)
            parts.append(self._read_tail(stream, selected, low, high))
        return joined_sums(parts)

    def values(self, sensor: Sensor, low: int | None, high: int | None) -> Floats:
        """Return the individual samples of one sensor."""
        stream = self._streams.all.get(sensor.node)
        if stream is None:
            return np.zeros(0)
        key, parts = (sensor.kind, sensor.device, sensor.metric), []
        for part in stream.parts:
            if key in part.keys:
                columns = part.read(0, [part.keys[key]], SAMPLES.row_columns, axis=SAMPLES.axis, low=low, high=high)[1]
                parts.append(columns["total"][_between(columns["time_ns"], low, high)])
        tail = self._read_tail(stream, {key: 0}, low, high)
        return np.concatenate([*parts, tail.total])

    def _tail(self, stream: Stream) -> _Tail:
        entry = self._tails.get(stream.name)
        if entry is None or entry[0] != stream.version:
            entry = self._tails[stream.name] = (stream.version, _tail_of(stream.tail))
        return entry[1]

    def _read_tail(
        self, stream: Stream, selected: Mapping[tuple[str, str, str], int], low: int | None, high: int | None
    ) -> Sums:
        tail = self._tail(stream)
        if not len(tail.time_ns) or not selected:
            return _empty_sums()
        indices = np.array(
            [selected.get((channel.kind, channel.device, channel.metric), -1) for channel in tail.channels], np.int64
        )
        sensor = indices[tail.channel]
        keep = (sensor >= 0) & _between(tail.time_ns, low, high)
        return Sums.of_samples(sensor[keep], tail.time_ns[keep], tail.values[keep])


def _empty_sums() -> Sums:
    return Sums.of_samples(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


def _tail_of(ranges: Sequence[Range]) -> _Tail:
    numbers: dict[Channel, int] = {}
    channels, times, values = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
    for batches in ranges:
        indices = np.array([numbers.setdefault(channel, len(numbers)) for channel in batches.info.channels], np.int64)
        channels.append(indices[batches.numbers("channel")])
        times.append(batches.numbers("time_ns"))
        values.append(batches.numbers("value"))
    return _Tail(np.concatenate(channels), np.concatenate(times), np.concatenate(values), tuple(numbers))


def _read_part(
    part: ParquetPart, selected: Mapping[tuple[str, str, str], int], width: int, low: int | None, high: int | None
) -> Iterator[Sums]:
    indices = {part.keys[key]: index for key, index in selected.items() if key in part.keys}
    by_level: dict[int, list[int]] = {}
    for number in indices:
        by_level.setdefault(part.level(number, width), []).append(number)
    index_of_number = np.zeros(len(part.keys), np.int64)
    index_of_number[list(indices)] = list(indices.values())
    for level, numbers in by_level.items():
        names = SAMPLES.schema.names if level else SAMPLES.row_columns
        keys, columns = part.read(level, numbers, names, axis=SAMPLES.axis, low=low, high=high)
        rows = sums_of_columns(columns if level else SAMPLES.fill(columns), index_of_number[keys])
        yield rows.where(_between(rows.time_ns, low, high))


def _between(times: Integers, low: int | None, high: int | None) -> npt.NDArray[np.bool_]:
    keep = np.ones(len(times), bool)
    if low is not None:
        keep &= times >= low
    if high is not None:
        keep &= times < high
    return keep


def matching(sensors: Collection[Sensor], *, kind: Names, metric: Names, device: Names, node: Names) -> list[Sensor]:
    """Return the sensors that match all criteria."""
    criteria = {"kind": kind, "metric": metric, "device": device, "node": node}
    accepted = {key: {names} if isinstance(names, str) else set(names) for key, names in criteria.items() if names}
    return [sensor for sensor in sensors if all(getattr(sensor, key) in names for key, names in accepted.items())]
