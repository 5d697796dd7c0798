"""Axes of values: logarithmic where values differ widely, ticks in SI units, and lines with gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

_LOG_RATIO: Final = 100.0
"""The axis is logarithmic if the largest value exceeds this many medians."""
_LOW_RATIO: Final = 1000.0
"""The axis is also logarithmic if the median exceeds the low percentile by this factor."""
_LOW_PERCENTILE: Final = 5.0
_MAX_TICKS: Final = 4
_POWER_FONT: Final = 10
"""Font size of powers of ten: Plotly draws them by a quarter larger."""
_GAP: Final = 4.0
"""A pause longer than this many median intervals, and than this many of a neighbouring one, is a gap; not if the next
one is longer, as at the start of a run, where captures become less frequent."""
_MAX_MARKED: Final = 60
"""Maximum number of points of a line that are marked, so that one sees how many there are."""
SECONDS: Final = {"tickformat": "~s", "ticksuffix": "s"}
"""Properties of an axis in seconds: ``100ms``, ``10s``."""
SECONDS_ON_HOVER: Final = "%{y:.3s}s"


def set_scale(fig: go.Figure, values: Iterable[Any], *, is_log: bool | None = None) -> bool:
    """Make the value axis linear or logarithmic, and tell the page, which offers the other scale.

    Args:
        values: All values that are drawn.
        is_log: None: logarithmic if all values are positive and differ widely.
    Returns:
        Whether it is logarithmic.
    """
    arrays = [np.asarray(part, np.float64).ravel() for part in values]
    joined = np.concatenate(arrays) if arrays else np.zeros(0)
    finite = joined[np.isfinite(joined)]
    positive = finite[finite > 0]
    if is_log is None:
        is_log = len(positive) == len(finite) and differs_widely(positive)
    fig.update_layout(meta={**(fig.layout.meta or {}), "scale": "log" if is_log else "linear"})
    if not is_log:
        return False
    decades = float(np.log10(positive.max()) - np.log10(positive.min())) if positive.size else 0.0
    ticks: dict[str, object] = {"nticks": _MAX_TICKS}
    if decades >= 1:
        ticks = {"dtick": int(np.ceil(decades / _MAX_TICKS)), "tickfont": {"size": _POWER_FONT}}
    fig.update_yaxes(type="log", exponentformat="power", minor={"ticks": ""}, **ticks)
    return True


def differs_widely(values: npt.NDArray[np.floating[Any]]) -> bool:
    """Return whether positive values are too far apart for a linear axis: a few far above the median, or many below."""
    positive = values[np.isfinite(values) & (values > 0)]
    if not positive.size:
        return False
    low, median = np.percentile(positive, [_LOW_PERCENTILE, 50.0])
    return bool(positive.max() / _LOG_RATIO > median or median / _LOW_RATIO > low)


def line_mode(values: npt.NDArray[np.floating[Any]]) -> str:
    """Return how Plotly draws a line with gaps: with markers if points are few or stand alone."""
    is_finite = np.isfinite(values)
    count = int(is_finite.sum())
    if count < 2:
        return "markers"
    around = np.concatenate([[False], is_finite, [False]])
    has_single_points = bool(np.any(is_finite & ~around[:-2] & ~around[2:]))
    return "lines+markers" if count <= _MAX_MARKED or has_single_points else "lines"


def with_gaps(rows: Mapping[str, npt.NDArray[Any]], position: str) -> dict[str, npt.NDArray[Any]]:
    """Insert a row of NaN into each gap, so that no line is drawn where nothing was measured.

    Args:
        rows: Columns of equal length.
        position: The column of steps or times, ascending integers; a gap begins one after its last row.
    """
    at = rows[position]
    gaps = _gaps(np.diff(at)) + 1
    if not gaps.size:
        return dict(rows)
    return {
        name: np.insert(at, gaps, at[gaps - 1] + 1)
        if name == position
        else np.insert(np.asarray(column, np.float64), gaps, np.nan)
        for name, column in rows.items()
    }


def _gaps(pauses: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the indices of pauses that are gaps."""
    if len(pauses) < 2:
        return np.zeros(0, np.int64)
    around = np.concatenate([pauses[1:2], pauses, pauses[-2:-1]])
    before, after = around[:-2], around[2:]
    is_long = (pauses > _GAP * np.median(pauses)) & (pauses > _GAP * np.minimum(before, after))
    return np.flatnonzero(is_long & (pauses >= after))
