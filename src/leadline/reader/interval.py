"""What came between two moments: samples of the machine, and phases of the workers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from leadline.reader.operator_times import OperatorTimes
from leadline.records.metric import Channel
from leadline.records.needs import Needs

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]


class Sensor(NamedTuple):
    """A channel of a node."""

    node: str
    kind: str
    device: str
    metric: str

    @classmethod
    def of(cls, node: str, channel: Channel) -> Sensor:
        """That of a node's channel."""
        return cls(node, channel.kind, channel.device, channel.metric)


class PhaseKey(NamedTuple):
    """One kind of rows of a worker's timeline."""

    worker: str
    mode: str
    """``train``, ``eval`` …: what the rows have as their phase."""
    name: str
    """``step``, ``data``, ``forward`` …"""
    within: str
    """The phase that these rows lie within, and are taken out of; "": none but the step."""


@dataclass(frozen=True, slots=True)
class Samples:
    """What a sensor gave."""

    sensor: Sensor
    times_ns: Integers
    """Ascending, ``(samples,)``; ns since the epoch."""
    values: Floats
    """``(samples,)``; what could not be read has no sample."""


@dataclass(frozen=True, slots=True)
class Spans:
    """Rows of one kind of a worker's timeline, in the order in which they ended."""

    key: PhaseKey
    steps: Integers
    """The global step of each, ``(rows,)``."""
    starts_ns: Integers
    durations_ns: Integers
    weights: Integers
    """For how many steps each stands: of very fast trainings only one step in so many is written."""


class Interval:
    """Everything that ended between two moments, by where it came from."""

    __slots__ = ("_operators", "_samples", "_spans")

    def __init__(self) -> None:
        self._operators: list[OperatorTimes] = []
        self._samples: dict[Sensor, tuple[list[int], list[float]]] = {}
        self._spans: dict[PhaseKey, tuple[list[int], list[int], list[int], list[int]]] = {}

    def __bool__(self) -> bool:
        return bool(self._samples or self._spans or self._operators)

    def add_sample(self, sensor: Sensor, time_ns: int, value: float) -> None:
        """Take in a reading; those of one sensor come in the order of time."""
        known = self._samples.get(sensor)
        if known is None:
            known = self._samples[sensor] = ([], [])
        known[0].append(time_ns)
        known[1].append(value)

    def add_span(self, key: PhaseKey, step: int, start_ns: int, duration_ns: int, weight: int = 1) -> None:
        """Take in a row of a timeline."""
        known = self._spans.get(key)
        if known is None:
            known = self._spans[key] = ([], [], [], [])
        for column, value in zip(known, (step, start_ns, duration_ns, weight), strict=True):
            column.append(value)

    def add_operators(self, window: OperatorTimes) -> None:
        """Take in a detailed window."""
        self._operators.append(window)

    def extend(self, later: Interval, needs: Needs | None = None) -> None:
        """Go on with a later interval, or with what somebody needs of it."""
        for sensor, (times, values) in later._samples.items():
            if needs is None or any(each.selects(*sensor[1:]) for each in needs.metrics):
                mine = self._samples.setdefault(sensor, ([], []))
                mine[0].extend(times)
                mine[1].extend(values)
        if needs is None or needs.operators:
            self._operators += later._operators
        for key, columns in later._spans.items():
            if needs is None or key.name in needs.phases:
                ours = self._spans.setdefault(key, ([], [], [], []))
                for column, more in zip(ours, columns, strict=True):
                    column.extend(more)

    def samples(self, kind: str, metric: str, device: str | None = None) -> list[Samples]:
        """The samples of a metric, sensor by sensor."""
        import numpy as np

        return [
            Samples(sensor, np.array(times, np.int64), np.array(values, np.float64))
            for sensor, (times, values) in sorted(self._samples.items())
            if sensor.kind == kind and sensor.metric == metric and device in (None, sensor.device)
        ]

    def operators(self) -> list[OperatorTimes]:
        """The detailed windows, in the order in which they had been written."""
        return sorted(self._operators, key=lambda each: (each.whole_ns, each.worker, each.window))

    def spans(self, name: str | None = None) -> list[Spans]:
        """The rows of one name, or of all, kind by kind."""
        import numpy as np

        return [
            Spans(key, *(np.array(column, np.int64) for column in columns))
            for key, columns in sorted(self._spans.items())
            if name in (None, key.name)
        ]


@lru_cache(maxsize=1 << 12)
def place_of(args: str) -> tuple[str, int]:
    """What a row's ``args`` say of it: the phase that it lies within ("": none), and for how many steps it stands."""
    said = json.loads(args) if args != "{}" else {}
    if not isinstance(said, dict):
        return "", 1
    every = said.get("every")
    return str(said.get("within") or ""), every if isinstance(every, int) and every > 0 else 1
