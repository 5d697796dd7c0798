"""The forms in which compacted runs keep samples, steps and values: columns, and how neighbours become one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from leadline.analysis.buckets import LEVELS, SECOND_NS, Groups
from leadline.analysis.digest_series import Values
from leadline.analysis.digest_steps import StepSums
from leadline.analysis.digest_system import Sums
from leadline.analysis.steps import PARTS
from leadline.store import layout

Columns = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Form:
    """One kind of derived file."""

    part: str
    """The folder of its files, named after the part of the run that they are derived from."""
    schema: pa.Schema
    axis: str
    """The column that ascends within a key."""
    own: tuple[str, ...]
    """Columns of the rows themselves; those of buckets are all."""
    widths: tuple[int, ...]
    """Of the buckets, in the unit of the axis."""
    reduce: Callable[[Columns, int], Columns]
    """Puts rows of one key in one bucket together; of buckets or, with those columns filled in, of rows."""
    fill: Callable[[Columns], Columns]
    """Rows themselves with all columns."""

    @property
    def integers(self) -> tuple[str, ...]:
        """Columns whose neighbours are alike."""
        return tuple(field.name for field in self.schema if pa.types.is_int64(field.type))


def _fill_samples(columns: Columns) -> Columns:
    values = columns["total"]
    return {**columns, "least": values, "most": values, "samples": np.ones(len(values), np.int64)}


def _reduce_samples(columns: Columns, width: int) -> Columns:
    groups = Groups(columns["time_ns"] // width)
    return {
        "time_ns": groups.keys * width,
        "total": groups.sum(columns["total"]),
        "least": groups.min(columns["least"]),
        "most": groups.max(columns["most"]),
        "samples": groups.sum(columns["samples"]),
    }


def sums_of_columns(columns: Columns, sensor: npt.NDArray[np.int64]) -> Sums:
    """Samples or their buckets, all columns filled in."""
    return Sums(sensor, *(columns[name] for name in ("time_ns", "total", "least", "most", "samples")))


_STEP_COLUMNS: Final = StepSums.__slots__[2:-1]
_PART_COLUMNS: Final = tuple(f"{part}_ns" for part in PARTS)


def _fill_steps(columns: Columns) -> Columns:
    took, step = columns["longest_ns"], columns["step"]
    return {
        **columns,
        "last_step": step,
        "end_ns": columns["start_ns"] + took,
        "duration_ns": took * columns["count"],
        "shortest_ns": took,
        "longest_step": step,
    }


def steps_of_columns(worker: str, mode: str, columns: Columns) -> StepSums:
    """Steps or their buckets, all columns filled in."""
    parts = np.stack([columns[name] for name in _PART_COLUMNS], axis=1).astype(np.float64)
    return StepSums(worker, mode, **{name: columns[name] for name in _STEP_COLUMNS}, parts=parts)


def columns_of_steps(steps: StepSums) -> Columns:
    """The inverse."""
    parts = dict(zip(_PART_COLUMNS, np.rint(steps.parts).astype(np.int64).T, strict=True))
    return {**{name: getattr(steps, name) for name in _STEP_COLUMNS}, **parts}


def _reduce_steps(columns: Columns, width: int) -> Columns:
    return columns_of_steps(steps_of_columns("", "", columns).in_buckets(width))


_VALUE_COLUMNS: Final = Values.__slots__[2:]


def _fill_values(columns: Columns) -> Columns:
    filled = Values.of_rows("", "", *(columns[name] for name in ("step", "mode_step", "time_ns", "value")))
    return columns_of_values(filled)


def values_of_columns(worker: str, mode: str, columns: Columns) -> Values:
    """Values or their buckets, all columns filled in."""
    return Values(worker, mode, *(columns[name] for name in _VALUE_COLUMNS))


def columns_of_values(values: Values) -> Columns:
    """The inverse."""
    return {name: getattr(values, name) for name in _VALUE_COLUMNS}


def _reduce_values(columns: Columns, width: int) -> Columns:
    return columns_of_values(values_of_columns("", "", columns).in_buckets(width))


def _schema(integers: tuple[str, ...], floats: tuple[str, ...] = ()) -> pa.Schema:
    return pa.schema([*((name, pa.int64()) for name in integers), *((name, pa.float64()) for name in floats)])


SAMPLES: Final = Form(
    layout.SYSTEM,
    _schema(("time_ns", "samples"), ("total", "least", "most")),
    "time_ns",
    ("time_ns", "total"),
    tuple(each * SECOND_NS for each in LEVELS),
    _reduce_samples,
    _fill_samples,
)
"""Keys are ``[kind, device, metric]``."""
STEPS: Final = Form(
    layout.TIMELINE,
    _schema((*_STEP_COLUMNS, *_PART_COLUMNS)),
    "step",
    ("step", "start_ns", "longest_ns", "count", *_PART_COLUMNS),
    LEVELS,
    _reduce_steps,
    _fill_steps,
)
"""Keys are ``[mode]``."""
VALUES: Final = Form(
    layout.SERIES,
    _schema(("step", "mode_step", "time_ns", "nonfinite", "samples"), ("value", "least", "most")),
    "step",
    ("step", "mode_step", "time_ns", "value"),
    LEVELS,
    _reduce_values,
    _fill_values,
)
"""Keys are ``[tensor, statistic, mode]``."""
FORMS: Final = (SAMPLES, STEPS, VALUES)
