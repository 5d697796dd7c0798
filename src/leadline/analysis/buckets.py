"""Bucket grids for long series: a ladder of widths, each composed of narrower ones."""

from __future__ import annotations

from typing import Final

from leadline.reader.rollups import SECOND_NS


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
