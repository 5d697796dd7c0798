"""Roll-up schemas of compacted samples, steps and values: columns and their aggregation."""

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
class RollupSchema:
    """The schema of one kind of compacted file."""

    part: str
    """The folder of the files, named after the part of the run that they are derived from."""
    schema: pa.Schema
    axis: str
    """The column that is ascending within a key."""
    row_columns: tuple[str, ...]
    """Columns of the original rows; buckets have all columns."""
    widths: tuple[int, ...]
    """The bucket widths, in the unit of the axis."""
    reduce: Callable[[Columns, int], Columns]
    """Merges rows of one key into buckets; accepts buckets, or rows with all columns filled in."""
    fill: Callable[[Columns], Columns]
    """Returns the original rows with all columns filled in."""

    @property
    def integers(self) -> tuple[str, ...]:
        """Integer columns, whose neighboring values are similar."""
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
    """Create samples or their buckets from all columns."""
    return Sums(sensor, *(columns[name] for name in ("time_ns", "total", "least", "most", "samples")))


_STEP_COLUMNS: Final = StepSums.__slots__[2:-1]
_PART_COLUMNS: Final = tuple(f"{part}_ns" for part in PARTS)


def _fill_steps(columns: Columns) -> Columns:
    duration_ns, step = columns["longest_ns"], columns["step"]
    return {
        **columns,
        "last_step": step,
        "end_ns": columns["start_ns"] + duration_ns,
        "duration_ns": duration_ns * columns["count"],
        "shortest_ns": duration_ns,
        "longest_step": step,
    }


def steps_of_columns(worker: str, mode: str, columns: Columns) -> StepSums:
    """Create steps or their buckets from all columns."""
    parts = np.stack([columns[name] for name in _PART_COLUMNS], axis=1).astype(np.float64)
    return StepSums(worker, mode, **{name: columns[name] for name in _STEP_COLUMNS}, parts=parts)


def columns_of_steps(steps: StepSums) -> Columns:
    """Inverse of ``steps_of_columns``."""
    parts = dict(zip(_PART_COLUMNS, np.rint(steps.parts).astype(np.int64).T, strict=True))
    return {**{name: getattr(steps, name) for name in _STEP_COLUMNS}, **parts}


def _reduce_steps(columns: Columns, width: int) -> Columns:
    return columns_of_steps(steps_of_columns("", "", columns).in_buckets(width))


_VALUE_COLUMNS: Final = ("step", "mode_step", "time_ns", "value", "least", "most", "nonfinite", "samples")


def _fill_values(columns: Columns) -> Columns:
    filled = Values.of_rows("", "", *(columns[name] for name in ("step", "mode_step", "time_ns", "value")))
    return columns_of_values(filled)


def values_of_columns(worker: str, mode: str, columns: Columns) -> Values:
    """Create values or their buckets from all columns."""
    return Values(worker, mode, *(columns[name] for name in _VALUE_COLUMNS))


def columns_of_values(values: Values) -> Columns:
    """Inverse of ``values_of_columns``."""
    return dict(zip(_VALUE_COLUMNS, values.columns(), strict=True))


def _reduce_values(columns: Columns, width: int) -> Columns:
    return columns_of_values(values_of_columns("", "", columns).in_buckets(width))


def _schema(integers: tuple[str, ...], floats: tuple[str, ...] = ()) -> pa.Schema:
    return pa.schema([*((name, pa.int64()) for name in integers), *((name, pa.float64()) for name in floats)])


SAMPLES: Final = RollupSchema(
    layout.SYSTEM,
    _schema(("time_ns", "samples"), ("total", "least", "most")),
    "time_ns",
    ("time_ns", "total"),
    tuple(level * SECOND_NS for level in LEVELS),
    _reduce_samples,
    _fill_samples,
)
"""Keys are ``[kind, device, metric]``."""
STEPS: Final = RollupSchema(
    layout.TIMELINE,
    _schema((*_STEP_COLUMNS, *_PART_COLUMNS)),
    "step",
    ("step", "start_ns", "longest_ns", "count", *_PART_COLUMNS),
    LEVELS,
    _reduce_steps,
    _fill_steps,
)
"""Keys are ``[mode]``."""
VALUES: Final = RollupSchema(
    layout.SERIES,
    _schema(("step", "mode_step", "time_ns", "nonfinite", "samples"), ("value", "least", "most")),
    "step",
    ("step", "mode_step", "time_ns", "value"),
    LEVELS,
    _reduce_values,
    _fill_values,
)
"""Keys are ``[tensor, statistic, mode]``."""
ROLLUP_SCHEMAS: Final = (SAMPLES, STEPS, VALUES)
