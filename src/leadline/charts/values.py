"""Charts of the values of tensors: distributions, layers over steps, and images."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go

from leadline.analysis.histograms import MAX_MAGNITUDE, Histograms, even_edges
from leadline.analysis.train_axis import LayerMatrix
from leadline.charts import theme
from leadline.charts.value_axis import differs_widely

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_MAX_RIDGES: Final = 12
_OVERLAP: Final = 1.8
_LEAST_CELLS: Final = 200
"""A cell around a step is at least this part of the axis wide."""
_MAX_ROWS: Final = 160
_BLOCK: Final = re.compile(r".*?[./]\d+(?=[./])")
"""A name up to its first number: a layer or block of a model that repeats it."""
_ROW_PIXELS: Final = 14
_RATIOS: Final = ("ratio", "share", "fraction")
_ZERO_OFFSET: Final = 1.0
"""A zero is drawn this many powers of ten below the smallest magnitude."""
_MAX_CELLS: Final = 400
_MAX_HATCHED: Final = 2000
"""Hatched parts of rows; each is an element of the page."""
_TRANSPARENT: Final = "rgba(0,0,0,0)"


def over_steps(histograms: Histograms) -> go.Figure:
    """Draw histograms over steps as a heat map of the share of elements in each bin.

    Args:
        histograms: From ``analysis.histograms.read_histograms``.
    """
    if not histograms.steps:
        return theme.empty("no histogram was captured", _title(histograms))
    shares = 100.0 * histograms.shares()
    middles = (histograms.edges[1:] + histograms.edges[:-1]) / 2
    fig = theme.figure(_title(histograms))
    x, y, z = np.asarray(histograms.steps), theme.float32(middles), theme.float32(shares.T.round(2))
    hover, scale = "step %{x:,}, %{y:.3~g}: %{z:.3~g} %", theme.MAGNITUDE_SCALE
    theme.add_heat_map(fig, x, y, z, hover, scale=scale, title="elements (%)", zmin=0)
    return theme.set_step_axis(fig)


def ridge(histograms: Histograms) -> go.Figure:
    """Draw histograms as a ridge plot, the first step at the back; many steps are subsampled evenly."""
    if not histograms.steps:
        return theme.empty("no histogram was captured", _title(histograms))
    count = len(histograms.steps)
    chosen = np.unique(np.linspace(0, count - 1, min(count, _MAX_RIDGES)).round().astype(int))
    shares = histograms.shares()[chosen]
    scale = _OVERLAP / float(shares.max() or 1.0)
    middles = theme.float32((histograms.edges[1:] + histograms.edges[:-1]) / 2)
    fig = theme.figure(_title(histograms), y="step")
    for position, row in enumerate(shares):
        baseline = len(chosen) - 1 - position
        colour = theme.PALETTE[0]
        fig.add_trace(
            go.Scatter(
                x=np.concatenate([middles, middles[::-1]]),
                y=theme.float32(np.concatenate([baseline + scale * row, np.full(len(row), baseline)])),
                mode="lines",
                line={"color": colour, "width": 1},
                fill="toself",
                fillcolor=theme.translucent(colour, 0.35),
                hoverinfo="name",
                name=f"step {histograms.steps[chosen[position]]:,}",
                showlegend=False,
            )
        )
    ticks = [f"{histograms.steps[index]:,}" for index in chosen][::-1]
    fig.update_yaxes(tickvals=list(range(len(chosen))), ticktext=ticks)
    return fig


def _title(histograms: Histograms) -> str:
    return f"Values of {theme.plain_text(histograms.tensor, 60)} over steps"


def at_step(
    values: Any,
    *,
    tensor: str,
    step: int,
    bins: int = 60,
    missing: str = "the raw tensor was not stored at this step",
) -> go.Figure:
    """Draw the distribution of a tensor's values at one step; non-finite values are counted in a note.

    Args:
        values: Its elements, ``(*shape,)``; None: unknown.
    """
    title = f"{theme.plain_text(tensor)} at step {step:,}"
    if values is None:
        return theme.empty(missing, title)
    flat = np.asarray(values, np.float64).ravel()
    finite = flat[np.abs(flat) <= MAX_MAGNITUDE]  # also excludes NaN
    if not finite.size:
        return theme.empty("no value is finite" if flat.size else "the tensor has no elements", title)
    counts, edges = np.histogram(finite, even_edges(finite.min(), finite.max(), bins))
    fig = theme.figure(title, y="elements (count)")
    x, bar = theme.float32((edges[1:] + edges[:-1]) / 2), {"width": float(edges[1] - edges[0])}
    hover = "%{x:.3~g}: %{y:,}<extra></extra>"
    theme.add_bars(fig, "", x, counts, theme.PALETTE[0], hover, marker={"line": {"width": 0}}, **bar)
    excluded_count = flat.size - finite.size
    if excluded_count:
        theme.add_note(
            fig, f"{excluded_count:,} of {flat.size:,} values are not finite or too large", colour=theme.FAULT
        )
    return fig.update_layout(bargap=0)


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
    zero is darkest. Cells with a value that is not finite are red, cells without a value are grey.

    Args:
        data: From ``Digest.layers``.
        statistic: Name of the statistic, for the colour bar.
        is_log: None: logarithmic, except for a ratio whose values are of similar size.
    """
    values = np.abs(np.asarray(data["values"], np.float64))
    if not values.size or np.isnan(values).all():
        return theme.empty(missing, title or f"{theme.plain_text(statistic, 40)} of each tensor")
    tensors, steps = list(data["tensors"]), np.asarray(data["steps"])
    values, names, rows_merged = _merge_rows(values, tensors)
    is_nonfinite = np.isinf(values)
    values[is_nonfinite] = np.nan
    is_ratio = any(word in statistic for word in _RATIOS)
    is_log = (not is_ratio or differs_widely(values)) if is_log is None else is_log
    cells, colour_bar = _logarithms(values) if is_log else (values, {})
    label = theme.plain_text(statistic, 40)
    fig = theme.figure(title or f"{label} of each tensor", meta={"rows": tensors[::rows_merged]})
    theme.add_heat_map(
        fig,
        steps,
        names,
        theme.float32(cells.round(2) if is_log else cells),
        f"%{{y}}<br>step %{{x:,}}: %{{{'customdata' if is_log else 'z'}:.3~g}}",
        scale=theme.MAGNITUDE_SCALE,
        title=f"{label}, log scale" if is_log else label,
        bar=colour_bar,
        **({"customdata": theme.float32(values)} if is_log else {}),
    )
    if (more := data.get("nonfinite")) is not None:
        is_nonfinite &= ~np.isin(steps, more["steps"])  # which are drawn from where they begin
    if is_nonfinite.any():
        _add_red(fig, steps, names, is_nonfinite, "%{x:,}")
    if more is not None:
        bad, _, _ = _merge_rows(more["values"], tensors)
        width = max(1.0, (max(steps[-1], more["steps"][-1]) - steps[0]) / _LEAST_CELLS)
        end = 1.5 * steps[-1] - 0.5 * steps[-2] if len(steps) > 1 else steps[-1]  # of the last cell
        _add_nonfinite(fig, more["steps"], names, bad, width, end if more["steps"][-1] > steps[-1] else 0.0)
    notes = {
        f"{rows_merged} tensors per row (median)": rows_merged > 1,
        "red, hatched: not finite": is_nonfinite.any() or more is not None,
        "grey: not captured": True,
    }
    theme.add_note(fig, " · ".join(note for note, holds in notes.items() if holds))
    height = min(1000, max(260, 110 + _ROW_PIXELS * len(names)))
    fig.update_layout(plot_bgcolor=theme.NOT_CAPTURED, height=height)
    fig.update_yaxes(autorange="reversed", type="category", showgrid=False, nticks=40)
    return theme.set_step_axis(fig)


def with_nonfinite(data: LayerMatrix, counts: LayerMatrix) -> LayerMatrix:
    """Return a statistic of tensors with the steps at which they had values that were not finite, as ``nonfinite``.

    Those values are counted at more steps than other statistics are captured, and at every step once there is one.

    Args:
        data: From ``Digest.layers``.
        counts: The same of ``nonfinite_count``.
    """
    found = np.asarray(counts["values"], np.float64)
    rows = [counts["tensors"].index(tensor) if tensor in counts["tensors"] else -1 for tensor in data["tensors"]]
    if not found.size or not (found > 0).any():
        return data
    is_bad = np.stack([found[row] > 0 if row >= 0 else np.zeros(found.shape[1], bool) for row in rows])
    columns = np.flatnonzero(is_bad.any(axis=0))
    steps = np.asarray(counts["steps"])[columns]
    return {**data, "nonfinite": {"steps": steps, "values": np.where(is_bad[:, columns], np.inf, np.nan)}}


def _add_nonfinite(
    fig: go.Figure, steps: Floats, names: Sequence[str], values: Floats, width: float, end: float
) -> None:
    """Draw red cells around steps, and nothing between them; the rows of ``values`` are those of the chart.

    Args:
        end: The last cell reaches to here at least.
    """
    edges = np.stack([steps - width / 2, steps + width / 2], axis=1)
    edges[1:, 0] = np.maximum(edges[1:, 0], edges[:-1, 1])  # they touch, or leave a gap
    edges[-1, 1] = max(edges[-1, 1], end)
    is_red = np.zeros((len(names), 2 * len(steps) - 1), bool)
    is_red[:, ::2] = np.isinf(values)
    _add_red(fig, edges.ravel(), names, is_red, "%{x:,.0f}")


def _add_red(fig: go.Figure, x: Floats, names: Sequence[str], is_red: npt.NDArray[np.bool_], step: str) -> None:
    _add_hatching(fig, x, names, is_red)
    cells = theme.float32(np.where(is_red, 1.0, np.nan))
    red = [[0, theme.FAULT], [1, theme.FAULT]]
    hover = f"%{{y}}<br>step {step}: not finite"
    theme.add_heat_map(fig, x, names, cells, hover, scale=red, title="", showscale=False)


def _add_hatching(fig: go.Figure, x: Floats, names: Sequence[str], is_red: npt.NDArray[np.bool_]) -> None:
    """Hatch cells, so that they differ from others without colour; very many are too small for that."""
    centers = np.asarray(x, np.float64)
    edges = centers if len(centers) > is_red.shape[1] else _edges(centers)
    changes = np.diff(np.pad(is_red, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    (rows, starts), (_, ends) = np.nonzero(changes > 0), np.nonzero(changes < 0)
    if not 0 < len(rows) <= _MAX_HATCHED:
        return
    pattern = {"shape": "/", "fgcolor": "#ffffff", "fillmode": "replace", "size": 6, "solidity": 0.2}
    fig.add_trace(
        go.Bar(
            x=edges[ends] - edges[starts],
            y=[names[row] for row in rows.tolist()],
            base=edges[starts],
            width=1.0,
            orientation="h",
            marker={"color": _TRANSPARENT, "pattern": pattern, "line": {"width": 0}},
            hoverinfo="skip",
            showlegend=False,
        )
    )
    fig.update_layout(barmode="overlay")


def _edges(centers: Floats) -> Floats:
    """Return the edges of cells around centers, halfway between them."""
    if len(centers) == 1:
        return np.array([centers[0] - 0.5, centers[0] + 0.5])
    middles = (centers[1:] + centers[:-1]) / 2
    return np.concatenate([[2 * centers[0] - middles[0]], middles, [2 * centers[-1] - middles[-1]]])


def _merge_rows(values: Floats, names: list[str]) -> tuple[Floats, list[str], int]:
    """Merge neighbouring rows by their median if there are too many."""
    rows_merged = -(-len(names) // _MAX_ROWS)
    if rows_merged == 1:
        return values, theme.unique_labels(names), 1
    groups = [np.arange(start, min(start + rows_merged, len(names))) for start in range(0, len(names), rows_merged)]
    rows = np.stack([_column_medians(values[group]) for group in groups])
    labels = [_label(names[group[0]], names[group[-1]]) for group in groups]
    return rows, theme.unique_labels(labels), rows_merged


def _label(first: str, last: str) -> str:
    """Return the block of which a row has some tensors, ``gradient/blocks.11``, or the first and the last block."""
    parts = zip(*(re.split(r"(?<=[./])", name) for name in (first, last)), strict=False)
    shared = "".join(part for part, _ in takewhile(lambda pair: pair[0] == pair[1], parts))
    if first == last or _BLOCK.match(shared):
        return shared.rstrip("./")
    blocks = [found[0] if (found := _BLOCK.match(name)) else name for name in (first, last)]
    return f"{blocks[0]} … {blocks[1].rpartition('/')[2]}"


def _column_medians(rows: Floats) -> Floats:
    """Return the median of each column; NaN for columns of NaN, infinite for those with an infinite value."""
    has_values = ~np.isnan(rows).all(axis=0)
    medians = np.full(rows.shape[1], np.nan)
    medians[has_values] = np.nanmedian(rows[:, has_values], axis=0)
    medians[np.isinf(rows).any(axis=0)] = np.inf
    return medians


def _logarithms(values: Floats) -> tuple[Floats, dict[str, list[float] | list[str]]]:
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


def matrix(values: npt.NDArray[np.float64] | None, *, x: str = "column") -> go.Figure:
    """Draw values on a diverging colour scale; non-finite values are gaps.

    Args:
        values: ``(rows, columns)``; above 400 in a dimension every second, third … is drawn, with a note. None:
            unknown.
    """
    if values is None or not values.size:
        return theme.empty("there is no matrix to draw", "Values as an image")
    row_step, column_step = (max(1, -(-size // _MAX_CELLS)) for size in values.shape)
    cells = values[::row_step, ::column_step]
    finite = np.abs(cells[np.isfinite(cells)])
    limit = float(finite.max()) if finite.size else 1.0
    fig = theme.figure("Values as an image", x=x, y="row")
    theme.add_heat_map(
        fig,
        np.arange(cells.shape[1]) * column_step,
        np.arange(cells.shape[0]) * row_step,
        theme.float32(cells),
        "[%{y}, %{x}]: %{z:.3~g}",
        scale="RdBu",
        title="value",
        reversescale=True,
        zmin=-limit,
        zmax=limit,
    )
    fig.update_yaxes(autorange="reversed")
    if max(row_step, column_step) > 1:
        theme.add_note(fig, f"drawn: 1 in {row_step:,} rows, 1 in {column_step:,} columns")
    return fig
