"""Step buckets of scalars and tensor statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from leadline.analysis.buckets import Groups, bucket_width
from leadline.records.series import TensorInfo

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

SCALAR_BUCKETS: Final = pa.schema(
    [
        ("name", pa.string()),
        ("mode", pa.string()),
        ("worker", pa.string()),
        ("step", pa.int64()),
        ("mode_step", pa.int64()),
        ("time_ns", pa.int64()),
        ("value", pa.float64()),
        ("min", pa.float64()),
        ("max", pa.float64()),
        ("nonfinite", pa.int64()),
        ("samples", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Values:
    """Values of one statistic in one worker and mode, or buckets of them, in ascending order of steps."""

    worker: str
    mode: str
    step: Integers
    mode_step: Integers
    time_ns: Integers
    value: Floats
    """The last finite value of a bucket; NaN if there is none."""
    min: Floats
    """The minimum of the finite values; NaN if there are none."""
    max: Floats
    nonfinite: Integers
    samples: Integers

    @classmethod
    def of_rows(
        cls, worker: str, mode: str, step: Integers, mode_step: Integers, time_ns: Integers, value: Floats
    ) -> Values:
        """Create from values as captured."""
        is_finite = np.isfinite(value)
        finite = np.where(is_finite, value, np.nan)
        return cls(
            worker,
            mode,
            step,
            mode_step,
            time_ns,
            value,
            finite,
            finite,
            (~is_finite).astype(np.int64),
            np.ones(len(value), np.int64),
        )

    def __len__(self) -> int:
        return len(self.step)

    def columns(self) -> tuple[npt.NDArray[Any], ...]:
        """Return all arrays, in order."""
        return tuple(getattr(self, name) for name in Values.__slots__[2:])

    def where(self, keep: npt.NDArray[Any]) -> Values:
        """Return selected rows."""
        return Values(self.worker, self.mode, *(column[keep] for column in self.columns()))

    def in_buckets(self, width: int) -> Values:
        """Merge values of the same bucket; each bucket has the step of its last finite value."""
        groups = Groups(self.step // width)
        last = groups.last(np.isfinite(self.value))
        return Values(
            self.worker,
            self.mode,
            self.step[last],
            self.mode_step[last],
            self.time_ns[last],
            self.value[last],
            groups.nanmin(self.min),
            groups.nanmax(self.max),
            groups.sum(self.nonfinite),
            groups.sum(self.samples),
        )

    def table(self, name: str) -> pa.Table:
        """Return the values as ``SCALAR_BUCKETS``."""
        texts = [pa.repeat(pa.scalar(text, pa.string()), len(self)) for text in (name, self.mode, self.worker)]
        return pa.table([*texts, *self.columns()], schema=SCALAR_BUCKETS)


def joined_values(parts: Sequence[Values]) -> Values:
    """Concatenate values of one worker and mode, ordered by step."""
    columns = [np.concatenate(pieces) for pieces in zip(*(part.columns() for part in parts), strict=True)]
    if bool(np.all(columns[0][1:] >= columns[0][:-1])):
        return Values(parts[0].worker, parts[0].mode, *columns)
    order = np.argsort(columns[0], kind="stable")
    return Values(parts[0].worker, parts[0].mode, *(column[order] for column in columns))


def scalar_order(info: TensorInfo) -> int:
    """Return the sort key of scalars: losses, then metrics, then others."""
    kinds = ("losses", "metrics")
    return next((position for position, kind in enumerate(kinds) if kind in info.collections), len(kinds))


def matrix(rows: Mapping[str, Values], points: int) -> dict[str, Any]:
    """Align several series on one grid: ``tensors, steps, values``."""
    rows = {name: series for name, series in rows.items() if len(series)}
    if not rows:
        return {"tensors": [], "steps": [], "values": np.zeros((0, 0))}
    first = min(int(series.step[0]) for series in rows.values())
    width = bucket_width(max(int(series.step[-1]) for series in rows.values()) - first + 1, points)
    bucketed = [series.in_buckets(width) for series in rows.values()]
    slots = np.unique(np.concatenate([series.step // width for series in bucketed]))
    values = np.full((len(bucketed), len(slots)), np.nan)
    for row, series in zip(values, bucketed, strict=True):
        row[np.searchsorted(slots, series.step // width)] = series.value
    return {"tensors": list(rows), "steps": (slots * width).tolist(), "values": values}
