"""Records of a time interval: hardware samples, phases and operator times."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from leadline.profiles.operator_times import OperatorTimes
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
        """Return the sensor of a channel of a node."""
        return cls(node, channel.kind, channel.device, channel.metric)


class PhaseKey(NamedTuple):
    """The kind of a timeline row of a worker."""

    worker: str
    mode: str
    """The phase column of the row: ``train``, ``eval`` …"""
    name: str
    """``step``, ``data``, ``forward`` …"""
    within: str
    """The enclosing phase, whose time excludes these rows; "" if there is none but the step."""


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of a sensor."""

    sensor: Sensor
    times_ns: Integers
    """Ascending, ``(samples,)``; ns since the epoch."""
    values: Floats
    """``(samples,)``; values that could not be read have no sample."""


class RowArgs(NamedTuple):
    """What the ``args`` of a timeline row say of it."""

    within: str = ""
    """The enclosing phase; "" if there is none."""
    weight: int = 1
    """The number of steps that the row represents."""
    ready_ns: int = -1
    """The thread's time; see ``Spans``."""
    run_delay_ns: int = -1
    host_ready_ns: int = -1


@dataclass(frozen=True, slots=True)
class Spans:
    """The rows of one kind in a worker's timeline, in the order of their end."""

    key: PhaseKey
    steps: Integers
    """The train step of each row; in other modes the global step; ``(rows,)``."""
    starts_ns: Integers
    durations_ns: Integers
    weights: Integers
    """The number of steps that each row represents; in very fast trainings only every Nth step is written."""
    ready_ns: Integers
    """The time since its thread began in which that used a processor or waited for one; -1: not taken."""
    run_delay_ns: Integers
    """That in which it waited for a processor; -1: not taken."""
    host_ready_ns: Integers
    """The time of the step's phase ``host`` in which the thread used a processor or waited for one; -1: not taken."""


class Interval:
    """All records that end within a time interval, by source."""

    __slots__ = ("_operators", "_samples", "_spans")

    def __init__(self) -> None:
        self._operators: list[OperatorTimes] = []
        self._samples: dict[Sensor, tuple[list[int], list[float]]] = {}
        self._spans: dict[PhaseKey, tuple[list[int], ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._samples or self._spans or self._operators)

    def add_sample(self, sensor: Sensor, time_ns: int, value: float) -> None:
        """Add a sample; the samples of a sensor are added in the order of time."""
        columns = self._samples.get(sensor)
        if columns is None:
            columns = self._samples[sensor] = ([], [])
        columns[0].append(time_ns)
        columns[1].append(value)

    def add_span(self, key: PhaseKey, step: int, start_ns: int, duration_ns: int, args: RowArgs | None = None) -> None:
        """Add a timeline row."""
        columns = self._spans.get(key)
        if columns is None:
            columns = self._spans[key] = ([], [], [], [], [], [], [])
        for column, value in zip(columns, (step, start_ns, duration_ns, *(args or RowArgs())[1:]), strict=True):
            column.append(value)

    def add_operators(self, window: OperatorTimes) -> None:
        """Add a detailed window."""
        self._operators.append(window)

    def extend(
        self,
        later: Interval,
        needs: Needs | None = None,
        place: Callable[[PhaseKey, list[int]], list[int]] | None = None,
    ) -> None:
        """Append a later interval, or the part of it that ``needs`` selects.

        Args:
            place: Replaces the steps of timeline rows.
        """
        for sensor, (times, values) in later._samples.items():
            if needs is None or any(need.selects(*sensor[1:]) for need in needs.metrics):
                series = self._samples.setdefault(sensor, ([], []))
                series[0].extend(times)
                series[1].extend(values)
        if needs is None or needs.operators:
            self._operators += later._operators
        for key, later_columns in later._spans.items():
            if needs is None or key.name in needs.phases:
                known = self._spans.setdefault(key, ([], [], [], [], [], [], []))
                steps, *others = later_columns
                for column, more in zip(known, (place(key, steps) if place else steps, *others), strict=True):
                    column.extend(more)

    def samples(self, kind: str, metric: str, device: str | None = None) -> list[Samples]:
        """Return the samples of a metric, by sensor."""
        import numpy as np

        return [
            Samples(sensor, np.array(times, np.int64), np.array(values, np.float64))
            for sensor, (times, values) in sorted(self._samples.items())
            if sensor.kind == kind and sensor.metric == metric and device in (None, sensor.device)
        ]

    def operators(self) -> list[OperatorTimes]:
        """Return the detailed windows, in the order in which they were written."""
        return sorted(self._operators, key=lambda window: (window.written_ns, window.worker, window.window))

    def spans(self, name: str | None = None) -> list[Spans]:
        """Return the rows of one name, or of all names, by kind."""
        import numpy as np

        return [
            Spans(key, *(np.array(column, np.int64) for column in columns))
            for key, columns in sorted(self._spans.items())
            if name in (None, key.name)
        ]


@lru_cache(maxsize=1 << 12)
def parse_row_args(args: str) -> RowArgs:
    """Parse the ``args`` of a row."""
    fields = json.loads(args) if args != "{}" else {}
    if not isinstance(fields, dict):
        return RowArgs()
    every, *times = (fields.get(name) for name in ("every", "ready_ns", "run_delay_ns"))
    times.append(fields.get("host_ready_ns", fields.get("host_cpu_ns")))
    weight = every if isinstance(every, int) and every > 0 else 1
    return RowArgs(str(fields.get("within") or ""), weight, *(ns if isinstance(ns, int) else -1 for ns in times))
