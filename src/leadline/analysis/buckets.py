"""Bucket grids for long series: a ladder of widths, each composed of narrower ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

SECOND_NS: Final = 1_000_000_000
LEVELS: Final = (8, 64, 512, 4096)
"""Bucket widths stored in compacted runs, in steps or seconds; queries use the coarsest that divides their width."""


def bucket_width(span: int, points: int) -> int:
    """Return the narrowest width of the ladder 1, 2, 3, 4, 6, 8, 12 … that divides an interval into ``points`` buckets.

    Args:
        span: The length of the interval; it may start anywhere on the grid.
        points: The maximum number of buckets, at least 2.
    """
    min_width = -(-max(span, 1) // max(points - 1, 1))  # one bucket more if neither end is on the grid
    width = 1
    while width < min_width:
        width *= 2
    between = width // 4 * 3
    return between if width > 2 and between >= min_width else width


def bucket_width_ns(span_ns: int, points: int) -> int:
    """Return the bucket width of a time interval: whole seconds of the ladder, or fractions of a second."""
    min_width = -(-max(span_ns, 1) // max(points - 1, 1))
    if min_width > SECOND_NS // 2:
        return bucket_width(-(-span_ns // SECOND_NS), points) * SECOND_NS
    return next(fraction for fraction in _FRACTIONS_NS if fraction >= min_width)


_FRACTIONS_NS: Final = tuple(
    unit * factor for unit in (1, 1_000, 1_000_000) for factor in (1, 2, 5, 10, 20, 50, 100, 200, 500)
)


def level_of(width: int, levels: tuple[int, ...] = LEVELS) -> int:
    """The coarsest level from which buckets of a width can be made; 0: only the rows themselves."""
    return max((factor for factor in levels if width % factor == 0), default=0)


class Groups:
    """Rows grouped by an integer key, and aggregations of each group; groups are in ascending order.

    Attributes:
        keys: The key of each group.
    """

    def __init__(self, keys: Integers) -> None:
        is_sorted = bool(np.all(keys[1:] >= keys[:-1]))
        self._order: npt.NDArray[np.intp] | None = None if is_sorted else np.argsort(keys, kind="stable")
        ordered = keys if self._order is None else keys[self._order]
        is_first = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
        self._starts = np.flatnonzero(is_first)
        self.keys = ordered[self._starts]
        self._rows = len(keys)

    def __len__(self) -> int:
        return len(self.keys)

    def sum(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Sum ``(rows,)`` or ``(rows, columns)`` to ``(groups,)`` or ``(groups, columns)``."""
        return self._reduce(np.add, values)

    def min(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the minimum of each group; NaN if a row is NaN."""
        return self._reduce(np.minimum, values)

    def max(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the maximum of each group; NaN if a row is NaN."""
        return self._reduce(np.maximum, values)

    def nanmin(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the minimum of each group, ignoring NaN; NaN if all rows are NaN."""
        return self._reduce(np.fmin, values)

    def nanmax(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the maximum of each group, ignoring NaN; NaN if all rows are NaN."""
        return self._reduce(np.fmax, values)

    def last(self, is_preferred: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.intp]:
        """Return the last row of each group, preferring rows that match."""
        places = np.arange(self._rows)
        if is_preferred is not None:
            preferred = is_preferred if self._order is None else is_preferred[self._order]
            places = np.where(preferred, places + self._rows, places)
        rows = self._reduce(np.maximum, places, is_ordered=True) % max(self._rows, 1)
        return rows if self._order is None else self._order[rows]

    def first_at_max(self, values: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
        """Return the first row of each group that has its maximum."""
        ordered = values if self._order is None else values[self._order]
        sizes = np.diff(np.append(self._starts, self._rows))
        is_max = ordered == np.repeat(self.max(values), sizes)
        places = np.where(is_max, np.arange(self._rows), self._rows)
        rows = self._reduce(np.minimum, places, is_ordered=True)
        return rows if self._order is None else self._order[rows]

    def _reduce(self, ufunc: np.ufunc, values: npt.NDArray[Any], *, is_ordered: bool = False) -> npt.NDArray[Any]:
        if not len(self.keys):
            return values[:0]
        ordered = values if self._order is None or is_ordered else values[self._order]
        result: npt.NDArray[Any] = ufunc.reduceat(ordered, self._starts, axis=0)
        return result
