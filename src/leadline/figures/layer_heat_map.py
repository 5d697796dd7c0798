"""Layer heat map: one statistic of the tensors of a model over layers and steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go

from leadline.figures import theme

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_MAX_ROWS: Final = 160
_ROW_PIXELS: Final = 14
_RATIOS: Final = ("ratio", "share", "fraction")
_ZERO_OFFSET: Final = 1.0
"""A zero is drawn this many powers of ten below the smallest magnitude."""


def layers(
    data: Mapping[str, Any],
    *,
    statistic: str,
    is_log: bool | None = None,
    title: str = "",
    missing: str = "these tensors were not captured",
) -> go.Figure:
    """Draw a row for each tensor in model order, the first at the top; steps across.

    Magnitudes are drawn on a logarithmic scale, so that a gradient that vanishes towards the input darkens row by row;
    zero is darkest. Missing and non-finite values are gaps.

    Args:
        data: From ``Digest.layers``.
        statistic: Name of the statistic, for the colour bar.
        is_log: None: logarithmic unless the statistic is a ratio.
    """
    values = np.abs(np.asarray(data["values"], np.float64))
    values[~np.isfinite(values)] = np.nan
    if not values.size or np.isnan(values).all():
        return theme.empty(missing, title or f"{theme.plain_text(statistic, 40)} of each tensor")
    is_log = not any(word in statistic for word in _RATIOS) if is_log is None else is_log
    tensors = list(data["tensors"])
    values, names, rows_merged = _merge_rows(values, tensors)
    cells, colour_bar = _logarithms(values) if is_log else (values, {})
    label = theme.plain_text(statistic, 40)
    fig = theme.figure(title or f"{label} of each tensor", meta={"rows": tensors[::rows_merged]})
    fig.add_trace(
        go.Heatmap(
            x=np.asarray(data["steps"]),
            y=names,
            z=theme.float32(cells.round(2) if is_log else cells),
            hoverongaps=False,
            colorscale=theme.MAGNITUDE_SCALE,
            hovertemplate=f"%{{y}}<br>step %{{x:,}}: {'10^%{z:.1f}' if is_log else '%{z:.4g}'}<extra></extra>",
            colorbar={
                "title": {"text": f"{label}, log scale" if is_log else label, "side": "right"},
                "thickness": 12,
                "outlinewidth": 0,
                **colour_bar,
            },
        )
    )
    if rows_merged > 1:
        theme.add_note(fig, f"{rows_merged} tensors per row (median)")
    fig.update_yaxes(autorange="reversed", type="category", showgrid=False, nticks=40)
    fig.update_layout(height=min(1000, max(260, 110 + _ROW_PIXELS * len(names))))
    return theme.set_step_axis(fig)


def _merge_rows(values: Floats, names: list[str]) -> tuple[Floats, list[str], int]:
    """Merge neighbouring rows by their median if there are too many."""
    rows_merged = -(-len(names) // _MAX_ROWS)
    if rows_merged == 1:
        return values, theme.unique_labels(names), 1
    groups = [np.arange(start, min(start + rows_merged, len(names))) for start in range(0, len(names), rows_merged)]
    rows = np.stack([_column_medians(values[group]) for group in groups])
    labels = [names[group[0]] if len(group) == 1 else f"{names[group[0]]} … {names[group[-1]]}" for group in groups]
    return rows, theme.unique_labels(labels), rows_merged


def _column_medians(rows: Floats) -> Floats:
    """Return the median of each column; NaN for columns that are all NaN."""
    has_values = ~np.isnan(rows).all(axis=0)
    medians = np.full(rows.shape[1], np.nan)
    medians[has_values] = np.nanmedian(rows[:, has_values], axis=0)
    return medians


def _logarithms(values: Floats) -> tuple[Floats, dict[str, Any]]:
    """Return logarithms to base 10 with zeros below the smallest, and the ticks of the colour bar."""
    is_zero = values == 0
    with np.errstate(divide="ignore"):
        logarithms = np.log10(values)
    positive = logarithms[np.isfinite(logarithms)]
    low, high = (float(positive.min()), float(positive.max())) if positive.size else (0.0, 0.0)
    logarithms[is_zero] = low - _ZERO_OFFSET
    tick_step = max(1, round((high - low) / 6))
    powers = range(int(np.floor(low)), int(np.ceil(high)) + 1, tick_step)
    ticks, labels = [float(power) for power in powers], [f"1e{power}" for power in powers]
    if is_zero.any():
        zero = low - _ZERO_OFFSET
        kept_indices = [index for index, tick in enumerate(ticks) if tick > zero + _ZERO_OFFSET / 2]
        ticks, labels = (
            [zero, *(ticks[index] for index in kept_indices)],
            ["0", *(labels[index] for index in kept_indices)],
        )
    return logarithms, {"tickvals": ticks, "ticktext": labels}
