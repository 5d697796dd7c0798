"""Everything that was captured at one step, by layout."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from leadline.reader.step_axis import StepPlacer
from leadline.reader.window import TensorArray, TensorReading, natural_sort_key
from leadline.records.series import SeriesLayout, TensorInfo

if TYPE_CHECKING:
    from leadline.reader.window import Floats

Infos = dict[tuple[str, str], TensorInfo]
"""By worker and tensor: tensors of the same name can have different shapes in different workers."""


@dataclass(frozen=True, slots=True)
class SeriesRow:
    """One row of a series."""

    worker: str
    layout: SeriesLayout
    mode_step: int
    time_ns: int
    values: Floats


class RowGroup:
    """The rows of a step with the same layout, in the order of the readings of one statistic.

    Attributes:
        is_ordered: Whether each worker has one row, so that the rows are in the order of the readings.
    """

    __slots__ = ("_values", "is_ordered", "layout", "rows")

    def __init__(self, layout: SeriesLayout, rows: list[SeriesRow]) -> None:
        self.layout = layout
        self.rows = sorted(rows, key=lambda row: natural_sort_key(row.worker)) if len(rows) > 1 else rows
        self.is_ordered = len({row.worker for row in rows}) == len(rows)
        self._values: npt.NDArray[np.float64] | None = None

    @property
    def values(self) -> npt.NDArray[np.float64]:
        """The values of all rows, ``(rows, columns)``."""
        if self._values is None:
            self._values = np.array([row.values for row in self.rows])
        return self._values


@dataclass(slots=True)
class Point:
    """Everything captured at one step in one mode; complete before rules see it."""

    step: int
    """The global step."""
    mode: str
    rows: list[SeriesRow] = field(default_factory=list)
    arrays: list[TensorArray] = field(default_factory=list)
    is_incomplete: bool = False
    is_skipped: bool = False
    begins: frozenset[str] = frozenset()
    """The workers of which another training begins here."""
    train_step: int = -1
    """Where it stands on the axis of train steps; -1 until it is placed."""
    groups: tuple[RowGroup, ...] = ()
    """Its rows by layout, once it is placed."""
    mode_steps: tuple[int, int] | None = None
    """The first and the last mode step of its rows, once it is placed; None: it has no rows."""
    shared_readings: dict[tuple[object, ...], list[TensorReading]] = field(default_factory=dict)
    """Readings that several rules ask for, by what selects them."""
    _infos: Infos | None = None

    def place(self, axis: StepPlacer) -> None:
        """Place it on the axis of train steps, after the points before it; its rows are complete."""
        self.group()
        self.train_step = axis.place(self.step, self.mode, self.mode_steps[1] if self.mode_steps else None)

    def group(self) -> None:
        """Group the rows, which are complete."""
        by_layout: dict[int, list[SeriesRow]] = {}
        for row in self.rows:
            by_layout.setdefault(id(row.layout), []).append(row)
        self.groups = tuple(RowGroup(rows[0].layout, rows) for rows in by_layout.values())
        steps = [row.mode_step for row in self.rows]
        self.mode_steps = (min(steps), max(steps)) if steps else None

    @property
    def first_step(self) -> int:
        """The first mode step of its rows, once it is placed; without rows its global step."""
        return self.mode_steps[0] if self.mode_steps else self.step

    @property
    def infos(self) -> Infos:
        """The metadata of the tensors in its rows."""
        if self._infos is None:
            self._infos = {(row.worker, info.name): info for row in self.rows for info in row.layout.tensors}
        return self._infos

    @property
    def time_ns(self) -> int:
        return max((row.time_ns for row in self.rows), default=0)
