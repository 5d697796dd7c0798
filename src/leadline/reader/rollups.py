"""Rows of samples, steps and values as they are compacted, and their roll-ups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from leadline.records.names import PARTS
from leadline.store import layout

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]

Columns = dict[str, "npt.NDArray[Any]"]
"""Columns of equal length; the column ``key`` numbers the key of each row."""
Key = tuple[str, ...]
"""What identifies rows within a stream: names of a sensor, a mode, a statistic and its tensor."""
SECOND_NS: Final = 1_000_000_000


class Groups:
    """Rows grouped by an integer, and aggregations of each group; groups are in ascending order.

    ``pyarrow.Table.group_by`` takes four to six times as long for rows in order, and has no row at the maximum.

    Attributes:
        keys: The integer of each group.
    """

    def __init__(self, keys: Integers) -> None:
        is_sorted = bool(np.all(keys[1:] >= keys[:-1]))
        self._order: npt.NDArray[np.intp] | None = None if is_sorted else np.argsort(keys, kind="stable")
        ordered = self._ordered(keys)
        self._starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
        self.keys = ordered[self._starts]

    def sum(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the sum of each group."""
        return self._reduce(np.add, values)

    def min(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the minimum of each group, ignoring NaN; NaN if all rows are NaN."""
        return self._reduce(np.fmin, values)

    def max(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the maximum of each group, ignoring NaN; NaN if all rows are NaN."""
        return self._reduce(np.fmax, values)

    def first_at_max(self, values: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
        """Return the first row of each group that has its maximum."""
        return self._at_max(values, lambda places: np.minimum.reduceat(places, self._starts), len(values))

    def last_at_max(self, values: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
        """Return the last row of each group that has its maximum."""
        return self._at_max(values, lambda places: np.maximum.reduceat(places, self._starts), -1)

    def _at_max(
        self, values: npt.NDArray[Any], choose: Callable[[npt.NDArray[np.intp]], npt.NDArray[np.intp]], other: int
    ) -> npt.NDArray[np.intp]:
        sizes = np.diff(np.append(self._starts, len(values)))
        is_max = self._ordered(values) == np.repeat(self.max(values), sizes)
        rows = choose(np.where(is_max, np.arange(len(values)), other))
        return rows if self._order is None else self._order[rows]

    def _reduce(self, ufunc: np.ufunc, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        result: npt.NDArray[Any] = ufunc.reduceat(self._ordered(values), self._starts)
        return result

    def _ordered(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return values if self._order is None else values[self._order]


@dataclass(frozen=True, slots=True)
class RollupSchema:
    """The columns of one kind of rows, and how they are merged into buckets."""

    part: str
    """The part of the run that the rows are derived from, and the folder of the compacted files."""
    axis: str
    """The column by which the rows of a key are sorted."""
    width: int
    """The width of the buckets of the roll-up, in the unit of the axis."""
    row_columns: tuple[str, ...]
    """Columns of single rows; buckets have all columns."""
    integers: tuple[str, ...]
    floats: tuple[str, ...]
    derived: Callable[[Columns], Columns]
    """Returns the other columns of single rows."""
    aggregates: Callable[[Groups, Columns, int], Columns]
    """Returns the columns of the buckets of a width."""

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns."""
        return (*self.integers, *self.floats)

    def empty(self) -> Columns:
        """Return no rows."""
        return {"key": np.zeros(0, np.int64)} | {
            name: np.zeros(0, np.int64 if name in self.integers else np.float64) for name in self.columns
        }

    def joined(self, parts: Sequence[Columns]) -> Columns:
        """Concatenate rows that have the same columns."""
        parts = [rows for rows in parts if len(rows["key"])] or [self.empty()]
        if len(parts) == 1:
            return parts[0]
        return {name: np.concatenate([rows[name] for rows in parts]) for name in parts[0]}

    def in_buckets(self, rows: Columns, width: int) -> Columns:
        """Merge rows of the same key and bucket; the result is sorted by key and bucket.

        Args:
            rows: Single rows or buckets.
        """
        if not len(rows["key"]):
            return self.empty()
        if not rows.keys() >= set(self.columns):
            rows = {**rows, **self.derived(rows)}
        buckets = rows[self.axis] // width
        first, count = buckets.min(), int(np.ptp(buckets)) + 1
        groups = Groups(rows["key"] * count + (buckets - first))
        return {"key": groups.keys // count, **self.aggregates(groups, rows, width)}


def select(rows: Columns, keep: npt.NDArray[Any]) -> Columns:
    """Return selected rows."""
    return {name: column[keep] for name, column in rows.items()}


def _derived_samples(rows: Columns) -> Columns:
    return {"least": rows["total"], "most": rows["total"], "samples": np.ones(len(rows["total"]), np.int64)}


def _sample_buckets(groups: Groups, rows: Columns, width: int) -> Columns:
    return {
        "time_ns": groups.min(rows["time_ns"]) // width * width,
        "samples": groups.sum(rows["samples"]),
        "total": groups.sum(rows["total"]),
        "least": groups.min(rows["least"]),
        "most": groups.max(rows["most"]),
    }


PART_COLUMNS: Final = tuple(f"{part}_ns" for part in PARTS)


def _derived_steps(rows: Columns) -> Columns:
    step, duration_ns = rows["step"], rows["longest_ns"]
    return {
        "last_step": step,
        "end_ns": rows["start_ns"] + duration_ns,
        "duration_ns": duration_ns * rows["count"],
        "shortest_ns": duration_ns,
        "longest_step": step,
    }


def _step_buckets(groups: Groups, rows: Columns, _: int) -> Columns:
    longest = groups.first_at_max(rows["longest_ns"])
    return {
        "step": groups.min(rows["step"]),
        "mode_step": groups.min(rows["mode_step"]),
        "last_step": groups.max(rows["last_step"]),
        "start_ns": groups.min(rows["start_ns"]),
        "end_ns": groups.max(rows["end_ns"]),
        "count": groups.sum(rows["count"]),
        "duration_ns": groups.sum(rows["duration_ns"]),
        "longest_ns": rows["longest_ns"][longest],
        "shortest_ns": groups.min(rows["shortest_ns"]),
        "longest_step": rows["longest_step"][longest],
        **{name: groups.sum(rows[name]) for name in PART_COLUMNS},
    }


def _derived_values(rows: Columns) -> Columns:
    is_finite = np.isfinite(rows["value"])
    finite = np.where(is_finite, rows["value"], np.nan)
    nonfinite = (~is_finite).astype(np.int64)
    return {"least": finite, "most": finite, "nonfinite": nonfinite, "samples": np.ones(len(finite), np.int64)}


_FINITE: Final = 1 << 62


def _value_buckets(groups: Groups, rows: Columns, _: int) -> Columns:
    last = groups.last_at_max(rows["step"] + np.where(np.isfinite(rows["value"]), _FINITE, 0))
    return {
        **{name: rows[name][last] for name in ("step", "mode_step", "time_ns", "value")},
        "least": groups.min(rows["least"]),
        "most": groups.max(rows["most"]),
        "nonfinite": groups.sum(rows["nonfinite"]),
        "samples": groups.sum(rows["samples"]),
    }


SAMPLES: Final = RollupSchema(
    layout.SYSTEM,
    "time_ns",
    32 * SECOND_NS,
    ("time_ns", "total"),
    ("time_ns", "samples"),
    ("total", "least", "most"),
    _derived_samples,
    _sample_buckets,
)
"""Samples; keys are ``kind, device, metric``."""
STEPS: Final = RollupSchema(
    layout.TIMELINE,
    "step",
    64,
    ("step", "mode_step", "start_ns", "longest_ns", "count", *PART_COLUMNS),
    (
        *("step", "mode_step", "last_step", "start_ns", "end_ns", "count", "duration_ns", "longest_ns", "shortest_ns"),
        *("longest_step", *PART_COLUMNS),
    ),
    (),
    _derived_steps,
    _step_buckets,
)
"""Steps and the time of their parts; keys are ``mode``. A bucket's ``longest_step`` is the first that took longest."""
VALUES: Final = RollupSchema(
    layout.SERIES,
    "step",
    512,
    ("step", "mode_step", "time_ns", "value"),
    ("step", "mode_step", "time_ns", "nonfinite", "samples"),
    ("value", "least", "most"),
    _derived_values,
    _value_buckets,
)
"""Scalars and statistics; keys are ``statistic, tensor, mode``. A bucket has the step of its last finite value."""
SCHEMAS: Final = (SAMPLES, STEPS, VALUES)
