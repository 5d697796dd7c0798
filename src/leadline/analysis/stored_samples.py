"""The samples of a run's machines, from derived files and from the newest batches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from leadline.analysis.digest_system import Names, Sums, joined_sums
from leadline.analysis.rollup_schema import SAMPLES, sums_of_columns
from leadline.analysis.streams import Stream, Streams
from leadline.reader.bulk import Range
from leadline.reader.compact import ParquetPart
from leadline.reader.interval import Sensor
from leadline.records.metric import Channel

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Tail:
    """The newest samples of a node."""

    channel: Integers
    """Indexes ``channels``."""
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
        """Where they come from."""
        return self._streams

    def sensors(self) -> list[Sensor]:
        """All sensors there are."""
        found: dict[Sensor, None] = {}
        for stream in self._streams.all.values():
            told = [Channel(*key) for part in stream.parts for key in part.keys]
            found |= {Sensor.of(stream.name, each): None for each in (*told, *self._tail(stream).channels)}
        return list(found)

    def latest_ns(self) -> int | None:
        """The time of the last sample."""
        tails = [self._tail(each).time_ns for each in self._streams.all.values()]
        told = [int(each.max()) for each in tails if len(each)]
        return max([*told, self._streams.latest_ns() or 0], default=None) or None

    def sums(self, sensors: Sequence[Sensor], width_ns: int, low: int | None, high: int | None) -> Sums:
        """Samples or buckets from which those of a width can be made; sensors by their place among those given."""
        found = [_nothing()]
        for stream in self._streams.all.values():
            mine = {
                (each.kind, each.device, each.metric): at for at, each in enumerate(sensors) if each[0] == stream.name
            }
            for part in stream.parts if mine else ():
                found += _of_part(part, mine, width_ns, low, high)
            found.append(self._of_tail(stream, mine, low, high))
        return joined_sums(found)

    def values(self, sensor: Sensor, low: int | None, high: int | None) -> Floats:
        """The samples of one sensor as they were read."""
        stream = self._streams.all.get(sensor.node)
        if stream is None:
            return np.zeros(0)
        key, found = (sensor.kind, sensor.device, sensor.metric), []
        for part in stream.parts:
            if key in part.keys:
                columns = part.read(0, [part.keys[key]], SAMPLES.own, axis=SAMPLES.axis, low=low, high=high)[1]
                found.append(columns["total"][_between(columns["time_ns"], low, high)])
        tail = self._of_tail(stream, {key: 0}, low, high)
        return np.concatenate([*found, tail.total])

    def _tail(self, stream: Stream) -> _Tail:
        known = self._tails.get(stream.name)
        if known is None or known[0] != stream.version:
            known = self._tails[stream.name] = (stream.version, _tail_of(stream.tail))
        return known[1]

    def _of_tail(
        self, stream: Stream, wanted: Mapping[tuple[str, str, str], int], low: int | None, high: int | None
    ) -> Sums:
        tail = self._tail(stream)
        if not len(tail.time_ns) or not wanted:
            return _nothing()
        places = np.array([wanted.get((each.kind, each.device, each.metric), -1) for each in tail.channels], np.int64)
        sensor = places[tail.channel]
        keep = (sensor >= 0) & _between(tail.time_ns, low, high)
        return Sums.of_samples(sensor[keep], tail.time_ns[keep], tail.values[keep])


def _nothing() -> Sums:
    return Sums.of_samples(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


def _tail_of(ranges: Sequence[Range]) -> _Tail:
    numbers: dict[Channel, int] = {}
    channels, times, values = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
    for each in ranges:
        places = np.array([numbers.setdefault(one, len(numbers)) for one in each.info.channels], np.int64)
        channels.append(places[each.numbers("channel")])
        times.append(each.numbers("time_ns"))
        values.append(each.numbers("value"))
    return _Tail(np.concatenate(channels), np.concatenate(times), np.concatenate(values), tuple(numbers))


def _of_part(
    part: ParquetPart, wanted: Mapping[tuple[str, str, str], int], width: int, low: int | None, high: int | None
) -> Iterator[Sums]:
    places = {part.keys[key]: at for key, at in wanted.items() if key in part.keys}
    by_level: dict[int, list[int]] = {}
    for number in places:
        by_level.setdefault(part.level(number, width), []).append(number)
    turned = np.zeros(len(part.keys), np.int64)
    turned[list(places)] = list(places.values())
    for level, numbers in by_level.items():
        names = SAMPLES.schema.names if level else SAMPLES.own
        keys, columns = part.read(level, numbers, names, axis=SAMPLES.axis, low=low, high=high)
        rows = sums_of_columns(columns if level else SAMPLES.fill(columns), turned[keys])
        yield rows.where(_between(rows.time_ns, low, high))


def _between(times: Integers, low: int | None, high: int | None) -> npt.NDArray[np.bool_]:
    keep = np.ones(len(times), bool)
    if low is not None:
        keep &= times >= low
    if high is not None:
        keep &= times < high
    return keep


def matching(sensors: Collection[Sensor], *, kind: Names, metric: Names, device: Names, node: Names) -> list[Sensor]:
    """The sensors that are wanted."""
    wanted = {"kind": kind, "metric": metric, "device": device, "node": node}
    given = {key: {names} if isinstance(names, str) else set(names) for key, names in wanted.items() if names}
    return [each for each in sensors if all(getattr(each, key) in names for key, names in given.items())]
