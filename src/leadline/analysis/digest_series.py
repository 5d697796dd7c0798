"""Losses, metrics and statistics of tensors over steps, as buckets of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from leadline.analysis.buckets import Groups, width_of
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
    """Values of one statistic in one worker and mode, or what is kept of neighbouring ones, ascending by step."""

    worker: str
    mode: str
    step: Integers
    mode_step: Integers
    time_ns: Integers
    value: Floats
    """Of a bucket the last that is finite; NaN: none is."""
    least: Floats
    """Of the finite ones; NaN: there are none."""
    most: Floats
    nonfinite: Integers
    samples: Integers

    @classmethod
    def of_rows(
        cls, worker: str, mode: str, step: Integers, mode_step: Integers, time_ns: Integers, value: Floats
    ) -> Values:
        """Values as they were captured."""
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
        """All arrays, in order."""
        return tuple(getattr(self, name) for name in Values.__slots__[2:])

    def where(self, keep: npt.NDArray[Any]) -> Values:
        """Some of them."""
        return Values(self.worker, self.mode, *(each[keep] for each in self.columns()))

    def in_buckets(self, width: int) -> Values:
        """Neighbours in one bucket of the grid put together; each stands at its last finite step."""
        groups = Groups(self.step // width)
        last = groups.last(np.isfinite(self.value))
        return Values(
            self.worker,
            self.mode,
            self.step[last],
            self.mode_step[last],
            self.time_ns[last],
            self.value[last],
            groups.least(self.least),
            groups.most(self.most),
            groups.sum(self.nonfinite),
            groups.sum(self.samples),
        )

    def table(self, name: str) -> pa.Table:
        """As ``SCALAR_BUCKETS``."""
        texts = [pa.repeat(pa.scalar(each, pa.string()), len(self)) for each in (name, self.mode, self.worker)]
        return pa.table([*texts, *self.columns()], schema=SCALAR_BUCKETS)


def joined_values(parts: Sequence[Values]) -> Values:
    """Several of one worker and mode, put in the order of their steps."""
    columns = [np.concatenate(each) for each in zip(*(part.columns() for part in parts), strict=True)]
    if bool(np.all(columns[0][1:] >= columns[0][:-1])):
        return Values(parts[0].worker, parts[0].mode, *columns)
    order = np.argsort(columns[0], kind="stable")
    return Values(parts[0].worker, parts[0].mode, *(each[order] for each in columns))


def scalar_order(info: TensorInfo) -> int:
    """Losses before metrics before what else is a single number."""
    kinds = ("losses", "metrics")
    return next((place for place, kind in enumerate(kinds) if kind in info.collections), len(kinds))


def matrix(rows: Mapping[str, Values], points: int) -> dict[str, Any]:
    """Several series below each other on one grid: ``tensors, steps, values``."""
    rows = {name: each for name, each in rows.items() if len(each)}
    if not rows:
        return {"tensors": [], "steps": [], "values": np.zeros((0, 0))}
    first = min(int(each.step[0]) for each in rows.values())
    width = width_of(max(int(each.step[-1]) for each in rows.values()) - first + 1, points)
    told = [each.in_buckets(width) for each in rows.values()]
    slots = np.unique(np.concatenate([each.step // width for each in told]))
    values = np.full((len(told), len(slots)), np.nan)
    for row, each in zip(values, told, strict=True):
        row[np.searchsorted(slots, each.step // width)] = each.value
    return {"tensors": list(rows), "steps": (slots * width).tolist(), "values": values}
