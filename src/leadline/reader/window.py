"""What a rule sees when it is asked: the readings of one step, what came before, or a moment of time."""

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

    from leadline.reader.operator_times import OperatorTimes

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
    """The tensor's place among those of its capture."""
    dtype: str = "float32"
    """The type of its elements, by the framework's name: ``float32``, ``int64`` …"""

    @property
    def elements(self) -> int:
        """How many elements the tensor has."""
        count = 1
        for each in self.shape:
            count *= each
        return count


class Earlier(msgspec.Struct, frozen=True, gc=False):
    """An earlier reading of the same statistic of the same tensor of the same worker and mode."""

    mode_step: int
    step: int
    value: float


@dataclass(frozen=True, slots=True)
class LoopCheck:
    """A step at which a tensor is due to be compared, and with what."""

    before: Earlier | None
    """The latest reading far enough behind; None where there is none."""


@dataclass(frozen=True, slots=True)
class TensorArray:
    """A tensor that was stored whole."""

    worker: str
    tensor: str
    step: int
    mode_step: int
    load: Callable[[], npt.NDArray[Any]]
    """Reads the elements, ``(*shape,)``."""


@dataclass(frozen=True, slots=True)
class TensorVector:
    """One statistic that is an array (``unit_activity``, ``histogram`` …), of one tensor at one step of one worker."""

    tensor: str
    collections: tuple[str, ...]
    worker: str
    mode: str
    mode_step: int
    values: npt.NDArray[np.float64]
    """As the statistic's definition says: ``(units,)``, ``(classes,)``, ``(classes, classes)``, ``(2 + bins,)``."""
    step: int = -1
    """The global step."""
    shape: tuple[int, ...] = ()
    """That of the tensor; empty where it is not known."""


@dataclass(frozen=True, slots=True)
class Scan:
    """A moment on the grid of a rule of time; all times are those of records, in ns since the epoch."""

    time_ns: int
    started_ns: int
    """When the run started."""
    last_record_ns: int | None
    """The time of the last thing that a worker wrote until then; None: nothing yet."""
    last_step: int
    """The global step of that; -1 before the first."""
    interval: Interval = field(default_factory=Interval)
    """What came since the moment before at which the rule was judged, of what it needs."""
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What each worker says of itself, and the ``cores`` of its ``node``."""


class _Source(Protocol):
    """Where a window's readings come from: a view of the stream that the reader keeps for the rule."""

    def readings(self, statistic: str, where: Callable[[Floats], Choices] | None) -> list[TensorReading]: ...
    def modes(self) -> frozenset[str]: ...
    def earlier(self, reading: TensorReading) -> Sequence[Earlier]: ...
    def is_due(self, reading: TensorReading, spacing: int) -> bool: ...
    def vectors(self, statistic: str) -> list[TensorVector]: ...
    def arrays(self) -> list[TensorArray]: ...
    def array_before(self, array: TensorArray, distance: int) -> TensorArray | None: ...


class Window:
    """What a rule judges: a pure function of the records of a run, whenever and however often it is made.

    Attributes:
        step: The global step; for a rule of time the last one before the moment.
        mode: The mode of that step.
        time_ns: Wall clock of the step or moment, as recorded.
        is_thinned: Whether something that was to be captured at this step was not, or was lost.
        is_skipped: Whether a gradient scaler skipped the step: its gradients overflowed, and no weight changed.
        scan: The moment, for a rule of time; else None.
        memory: What the rule's ``remember`` made of this window and all before it; else None.
        others: The windows of other runs on this step, by the names that the rule's needs have for them; a run that
            has nothing there is missing.
    """

    def __init__(
        self,
        step: int,
        mode: str,
        time_ns: int,
        *,
        source: _Source | None = None,
        is_thinned: bool = False,
        is_skipped: bool = False,
        scan: Scan | None = None,
    ) -> None:
        self.step, self.mode, self.time_ns = step, mode, time_ns
        self.is_thinned, self.is_skipped, self.scan = is_thinned, is_skipped, scan
        self.memory: Any = None
        self.others: Mapping[str, Window] = {}
        self._source = source

    def readings(self, statistic: str, *, where: Callable[[Floats], Choices] | None = None) -> list[TensorReading]:
        """The readings of a statistic at this step, of what the rule needs; losses first, then as captured.

        Args:
            where: Of an array of values, which are wanted; for rules that look at many and name few.
        """
        return self._source.readings(statistic, where) if self._source else []

    def vectors(self, statistic: str) -> list[TensorVector]:
        """The arrays that a statistic is at this step, of what the rule needs; worker by worker, by tensor.

        Where only the tensor itself was stored, they are computed from it.

        Raises:
            DamagedRunError: One of them cannot be read.
        """
        return self._source.vectors(statistic) if self._source else []

    def modes(self) -> frozenset[str]:
        """The modes in which something that the rule needs was captured so far, this step's among them."""
        return self._source.modes() if self._source else frozenset()

    def earlier(self, reading: TensorReading) -> Sequence[Earlier]:
        """The readings before this one, oldest first, as far back as the need's ``history`` says."""
        return self._source.earlier(reading) if self._source else ()

    def due(self, reading: TensorReading, num_steps: int) -> LoopCheck | None:
        """Whether a reading is due to be compared when that happens every ``num_steps`` steps, and with which.

        A reading is due when ``num_steps`` steps have passed since the last that was; the count begins just
        before the stream's first reading. It is compared with the latest at least ``num_steps`` behind it. So
        with steps 0, 3, 6, … and ``num_steps`` 10: 9 (nothing to compare with), 21 against 9, 33 against 21.
        Needs the whole history (``history=None``).
        """
        if self._source is None or not self._source.is_due(reading, num_steps):
            return None
        earlier = self._source.earlier(reading)
        position = bisect_right(earlier, reading.mode_step - num_steps, key=lambda each: each.mode_step)
        return LoopCheck(earlier[position - 1] if position else None)

    def arrays(self) -> list[TensorArray]:
        """The tensors that were stored whole at this step, of what the rule needs."""
        return self._source.arrays() if self._source else []

    def samples(self, kind: str, metric: str, device: str | None = None) -> list[Samples]:
        """What sensors gave since this rule's window before, sensor by sensor; for a rule of time that needs it."""
        return self.scan.interval.samples(kind, metric, device) if self.scan else []

    def spans(self, name: str | None = None) -> list[Spans]:
        """The phases that ended since this rule's window before, kind by kind; for a rule of time that needs them."""
        return self.scan.interval.spans(name) if self.scan else []

    def operators(self) -> list[OperatorTimes]:
        """The detailed windows that became whole since this rule's window before; for a rule of time that needs it."""
        return self.scan.interval.operators() if self.scan else []

    @property
    def facts(self) -> Mapping[str, Mapping[str, Any]]:
        """What each worker says of itself, and the ``cores`` of its ``node``; for a rule of time that needs it."""
        return self.scan.facts if self.scan else {}

    def array_before(self, array: TensorArray, num_steps: int) -> TensorArray | None:
        """The same tensor at the latest stored step at least ``num_steps`` earlier."""
        return self._source.array_before(array, num_steps) if self._source else None


_DIGITS: Final = "0123456789"
_PARTS: Final = re.compile("([0-9]+)")


@lru_cache(maxsize=1 << 16)
def natural_sort_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key that puts ``layers.2`` before ``layers.10``.

    Numbers are the runs of 0 to 9, however long; other digits, like that of ``m²``, are text.
    """
    return tuple(_by_size(part) if part[0] in _DIGITS else (1, 0, part) for part in _PARTS.split(name) if part)


def _by_size(digits: str) -> tuple[int, int, str]:
    """Orders numbers without reading them, which Python refuses where they are very long."""
    number = digits.lstrip("0")
    return 0, len(number), number


def reading_order(reading: TensorReading) -> tuple[Any, ...]:
    """The order in which a window gives readings: losses first, then worker by worker as captured."""
    return (
        "losses" not in reading.collections,
        natural_sort_key(reading.worker),
        reading.order,
        natural_sort_key(reading.tensor),
    )
