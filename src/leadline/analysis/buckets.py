"""The grids on which long series are told: a ladder of widths, each of which the coarser ones are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

SECOND_NS: Final = 1_000_000_000
LEVELS: Final = (8, 64, 512, 4096)
"""The widths at which compacted runs keep sums, in steps, or in seconds; a question is answered from the coarsest
that divides its own width."""


def width_of(span: int, points: int) -> int:
    """The narrowest width of the ladder 1, 2, 3, 4, 6, 8, 12 … at which an interval is at most so many buckets.

    Args:
        span: The interval's length; it may lie anywhere on the grid.
        points: At least 2.
    """
    least = -(-max(span, 1) // max(points - 1, 1))  # one more where neither end lies on the grid
    width = 1
    while width < least:
        width *= 2
    between = width // 4 * 3
    return between if width > 2 and between >= least else width


def time_width_ns(span_ns: int, points: int) -> int:
    """The same for times: whole seconds of the ladder, or parts of one second that the ladder divides it into."""
    least = -(-max(span_ns, 1) // max(points - 1, 1))
    if least > SECOND_NS // 2:
        return width_of(-(-span_ns // SECOND_NS), points) * SECOND_NS
    return next(each for each in _FRACTIONS_NS if each >= least)


_FRACTIONS_NS: Final = tuple(
    unit * each for unit in (1, 1_000, 1_000_000) for each in (1, 2, 5, 10, 20, 50, 100, 200, 500)
)


def level_of(width: int, levels: tuple[int, ...] = LEVELS) -> int:
    """The coarsest level from which buckets of a width can be made; 0: only the rows themselves."""
    return max((each for each in levels if width % each == 0), default=0)


class Groups:
    """Rows that belong together by a number, and what can be said of each group; groups ascend.

    Attributes:
        keys: The number of each group.
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
        """``(rows,)`` or ``(rows, columns)`` to ``(groups,)`` or ``(groups, columns)``."""
        return self._reduce(np.add, values)

    def min(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The smallest of each group; NaN where a row has it."""
        return self._reduce(np.minimum, values)

    def max(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The largest of each group; NaN where a row has it."""
        return self._reduce(np.maximum, values)

    def least(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The smallest number of each group; NaN only where there is none."""
        return self._reduce(np.fmin, values)

    def most(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The largest number of each group; NaN only where there is none."""
        return self._reduce(np.fmax, values)

    def last(self, is_wanted: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.intp]:
        """The row that comes last in each group, of those that are wanted if there is one."""
        places = np.arange(self._rows)
        if is_wanted is not None:
            wanted = is_wanted if self._order is None else is_wanted[self._order]
            places = np.where(wanted, places + self._rows, places)
        found = self._reduce(np.maximum, places, is_ordered=True) % max(self._rows, 1)
        return found if self._order is None else self._order[found]

    def first_where_most(self, values: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
        """The first row of each group that has its largest value."""
        ordered = values if self._order is None else values[self._order]
        sizes = np.diff(np.append(self._starts, self._rows))
        is_most = ordered == np.repeat(self.max(values), sizes)
        places = np.where(is_most, np.arange(self._rows), self._rows)
        found = self._reduce(np.minimum, places, is_ordered=True)
        return found if self._order is None else self._order[found]

    def _reduce(self, by: np.ufunc, values: npt.NDArray[Any], *, is_ordered: bool = False) -> npt.NDArray[Any]:
        if not len(self.keys):
            return values[:0]
        ordered = values if self._order is None or is_ordered else values[self._order]
        found: npt.NDArray[Any] = by.reduceat(ordered, self._starts, axis=0)
        return found
