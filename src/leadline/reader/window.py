"""Window of a rule: the readings of one step and those before it, or a moment in time."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from leadline.reader.interval import Interval, Samples, Spans

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from leadline.profiles.operator_times import OperatorTimes

    Floats = npt.NDArray[np.float64]
    Choices = npt.NDArray[np.bool_]


class TensorReading(msgspec.Struct, frozen=True, gc=False):
    """One statistic of one tensor at one step of one worker."""

    worker: str
    tensor: str
    collections: tuple[str, ...]
    shape: tuple[int, ...]
    statistic: str
    value: float
    step: int
    """The global step."""
    mode: str
    mode_step: int
    time_ns: int
    order: int = 0
    """The index of the tensor in its capture."""
    dtype: str = "float32"
    """The element type, as named by the framework: ``float32``, ``int64`` …"""

    @property
    def elements(self) -> int:
        """The number of elements of the tensor."""
        count = 1
        for size in self.shape:
            count *= size
        return count


class Earlier(msgspec.Struct, frozen=True, gc=False):
    """An earlier reading of the same statistic and tensor, in the same worker and mode."""

    mode_step: int
    step: int
    value: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """The reading to compare with, at a step where a comparison is scheduled."""

    before: Earlier | None
    """The latest reading at least ``num_steps`` before; None if there is none."""


@dataclass(frozen=True, slots=True)
class TensorArray:
    """A raw tensor."""

    worker: str
    tensor: str
    step: int
    mode_step: int
    load: Callable[[], npt.NDArray[Any]]
    """Reads the elements, ``(*shape,)``."""


@dataclass(frozen=True, slots=True)
class TensorVector:
    """A statistic that is an array (``unit_activity``, ``histogram`` …), of one tensor at one step of one worker."""

    tensor: str
    collections: tuple[str, ...]
    worker: str
    mode: str
    mode_step: int
    values: npt.NDArray[np.float64]
    """As defined by the statistic: ``(units,)``, ``(classes,)``, ``(classes, classes)``, ``(2 + bins,)``."""
    step: int = -1
    """The global step."""
    shape: tuple[int, ...] = ()
    """The shape of the tensor; empty if unknown."""


@dataclass(frozen=True, slots=True)
class Scan:
    """A moment at which time-based rules are evaluated; all times are those of records, in ns since the epoch."""

    time_ns: int
    started_ns: int
    """When the run started."""
    last_record_ns: int | None
    """The time of the last record of a worker before the moment; None if there is none."""
    last_step: int
    """The last train step before the moment; -1 before the first."""
    last_global_step: int = -1
    """The global step of the last record."""
    interval: Interval = field(default_factory=Interval)
    """The needed records since the previous evaluation of the rule."""
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The facts in each worker document, with its ``node`` and the ``cores`` of the node."""
    is_last: bool = False
    """Whether this is the end of the run; every time-based rule is evaluated then."""


class _Source(Protocol):
    """The source of a window's readings: the rule's view of the run."""

    def readings(self, statistic: str, where: Callable[[Floats], Choices] | None) -> list[TensorReading]: ...
    def modes(self) -> frozenset[str]: ...
    def earlier(self, reading: TensorReading) -> Sequence[Earlier]: ...
    def is_comparison_step(self, reading: TensorReading, spacing: int) -> bool: ...
    def vectors(self, statistic: str) -> list[TensorVector]: ...
    def arrays(self) -> list[TensorArray]: ...
    def array_before(self, array: TensorArray, distance: int) -> TensorArray | None: ...


class Window:
    """The input of a rule evaluation.

    **Deterministic**: a pure function of the records of a run, independent of when and how often it is created.

    Attributes:
        step: The train step; in other modes the train step that had been finished, for a time-based rule the last one
            before the moment.
        global_step: The same as a global step.
        mode: The mode of the step.
        time_ns: The recorded wall-clock time of the step or moment.
        is_incomplete: Whether data captured at this step was dropped.
        is_skipped: Whether a gradient scaler skipped the step: its gradients overflowed, and no weight changed.
        begun: The train step at which the current one of several trainings began; 0: the first.
        scan: The moment, for a time-based rule; otherwise None.
        memory: The state returned by the rule's ``remember`` for this window and all before it; otherwise None.
        others: The windows of other runs at this step, by the names in the rule's needs; runs without data at this
            step are missing.
    """

    def __init__(
        self,
        step: int,
        mode: str,
        time_ns: int,
        *,
        global_step: int | None = None,
        source: _Source | None = None,
        is_incomplete: bool = False,
        is_skipped: bool = False,
        begun: int = 0,
        scan: Scan | None = None,
    ) -> None:
        self.step, self.mode, self.time_ns, self.begun = step, mode, time_ns, begun
        self.global_step = step if global_step is None else global_step
        self.is_incomplete, self.is_skipped, self.scan = is_incomplete, is_skipped, scan
        self.memory: Any = None
        self.others: Mapping[str, Window] = {}
        self._source = source

    def readings(self, statistic: str, *, where: Callable[[Floats], Choices] | None = None) -> list[TensorReading]:
        """Return the needed readings of a statistic at this step; losses first, then in the order of capture.

        Args:
            where: Selects from an array of values; for rules that inspect many readings and report few.
        """
        return self._source.readings(statistic, where) if self._source else []

    def vectors(self, statistic: str) -> list[TensorVector]:
        """Return the needed values of an array statistic at this step, ordered by worker and tensor.

        If only the raw tensor was stored, they are computed from it.

        Raises:
            DamagedRunError: One of them cannot be read.
        """
        return self._source.vectors(statistic) if self._source else []

    def modes(self) -> frozenset[str]:
        """Return the modes in which needed data was captured up to and including this step."""
        return self._source.modes() if self._source else frozenset()

    def earlier(self, reading: TensorReading) -> Sequence[Earlier]:
        """Return the readings before this one, oldest first, as far back as the need's ``history``."""
        return self._source.earlier(reading) if self._source else ()

    def comparison(self, reading: TensorReading, num_steps: int) -> Comparison | None:
        """Return what to compare a reading with, if comparisons are scheduled every ``num_steps`` steps; else None.

        A comparison takes place when ``num_steps`` steps have passed since the previous one; counting starts just
        before the first reading. The reading is compared with the latest one at least ``num_steps`` before it. With
        steps 0, 3, 6, … and ``num_steps=10``: 9 (nothing to compare with), 21 with 9, 33 with 21.
        Requires the whole history (``history=None``).
        """
        if self._source is None or not self._source.is_comparison_step(reading, num_steps):
            return None
        earlier = self._source.earlier(reading)
        position = bisect_right(earlier, reading.mode_step - num_steps, key=lambda candidate: candidate.mode_step)
        return Comparison(earlier[position - 1] if position else None)

    def arrays(self) -> list[TensorArray]:
        """Return the needed raw tensors of this step."""
        return self._source.arrays() if self._source else []

    def samples(self, kind: str, metric: str, device: str | None = None) -> list[Samples]:
        """Return the samples since the previous window, by sensor; for time-based rules that need them."""
        return self.scan.interval.samples(kind, metric, device) if self.scan else []

    def spans(self, name: str | None = None) -> list[Spans]:
        """Return the phases completed since the previous window, by kind; for time-based rules that need them."""
        return self.scan.interval.spans(name) if self.scan else []

    def operators(self) -> list[OperatorTimes]:
        """Return the detailed windows written since the previous window; for time-based rules that need them."""
        return self.scan.interval.operators() if self.scan else []

    @property
    def facts(self) -> Mapping[str, Mapping[str, Any]]:
        """The facts of each worker, with its ``node`` and the node's ``cores``; for time-based rules that need them."""
        return self.scan.facts if self.scan else {}

    def array_before(self, array: TensorArray, num_steps: int) -> TensorArray | None:
        """Return the same tensor at the latest stored step at least ``num_steps`` earlier."""
        return self._source.array_before(array, num_steps) if self._source else None


_DIGITS: Final = "0123456789"
_PARTS: Final = re.compile("([0-9]+)")


@lru_cache(maxsize=1 << 16)
def natural_sort_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that orders ``layers.2`` before ``layers.10``.

    Numbers are sequences of 0 to 9 of any length; other digits, as in ``m²``, are text.
    """
    return tuple(_number_sort_key(part) if part[0] in _DIGITS else (1, 0, part) for part in _PARTS.split(name) if part)


def _number_sort_key(digits: str) -> tuple[int, int, str]:
    """Return a sort key for numbers without parsing them, as Python refuses to parse very long ones."""
    number = digits.lstrip("0")
    return 0, len(number), number


def reading_order(reading: TensorReading) -> tuple[Any, ...]:
    """Return the sort key of readings in a window: losses first, then by worker in the order of capture."""
    return (
        "losses" not in reading.collections,
        natural_sort_key(reading.worker),
        reading.order,
        natural_sort_key(reading.tensor),
    )
