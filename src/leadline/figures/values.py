"""Distributions of a tensor's values at a step and over steps."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from leadline.analysis.histograms import MAX_MAGNITUDE, Histograms, even_edges
from leadline.figures import theme

_MAX_RIDGES: Final = 12
_OVERLAP: Final = 1.8


def over_steps(
    histograms: Histograms, *, title: str = "", unit: str = "", missing: str = "no histogram was captured"
) -> go.Figure:
    """Draw histograms over steps as a heat map of the share of elements in each bin.

    Args:
        histograms: From ``analysis.histograms.read_histograms``.
        unit: Unit of the values.
    """
    if not histograms.steps:
        return theme.empty(missing, title)
    shares = 100.0 * histograms.shares()
    middles = (histograms.edges[1:] + histograms.edges[:-1]) / 2
    fig = theme.figure(title or f"{theme.plain_text(histograms.tensor)} over steps", y=_value_axis_title(unit))
    fig.add_trace(
        go.Heatmap(
            x=np.asarray(histograms.steps),
            y=theme.float32(middles),
            z=theme.float32(shares.T.round(2)),
            colorscale=theme.MAGNITUDE_SCALE,
            zmin=0,
            hoverongaps=False,
            hovertemplate="step %{x:,}, %{y:.3g}: %{z:.2f} %<extra></extra>",
            colorbar={"title": {"text": "elements (%)", "side": "right"}, "thickness": 12, "outlinewidth": 0},
        )
    )
    return theme.set_step_axis(fig)


def ridge(
    histograms: Histograms, *, title: str = "", unit: str = "", missing: str = "no histogram was captured"
) -> go.Figure:
    """Draw histograms as a ridge plot, the first step at the back; many steps are subsampled evenly."""
    if not histograms.steps:
        return theme.empty(missing, title)
    count = len(histograms.steps)
    chosen = np.unique(np.linspace(0, count - 1, min(count, _MAX_RIDGES)).round().astype(int))
    shares = histograms.shares()[chosen]
    scale = _OVERLAP / float(shares.max() or 1.0)
    middles = theme.float32((histograms.edges[1:] + histograms.edges[:-1]) / 2)
    fig = theme.figure(
        title or f"{theme.plain_text(histograms.tensor)}, step by step", x=_value_axis_title(unit), y="step"
    )
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


def at_step(
    values: Any,
    *,
    tensor: str,
    step: int,
    unit: str = "",
    bins: int = 60,
    title: str = "",
    missing: str = "the raw tensor was not stored at this step",
) -> go.Figure:
    """Draw the distribution of a tensor's values at one step; non-finite values are counted in a note.

    Args:
        values: Its elements, ``(*shape,)``; None: unknown.
    """
    if values is None:
        return theme.empty(missing, title)
    flat = np.asarray(values, np.float64).ravel()
    finite = flat[np.abs(flat) <= MAX_MAGNITUDE]  # also excludes NaN
    if not finite.size:
        return theme.empty("no value is finite" if flat.size else "the tensor has no elements", title)
    counts, edges = np.histogram(finite, even_edges(finite.min(), finite.max(), bins))
    fig = theme.figure(
        title or f"{theme.plain_text(tensor)} at step {step:,}", x=_value_axis_title(unit), y="elements (count)"
    )
    fig.add_trace(
        go.Bar(
            x=theme.float32((edges[1:] + edges[:-1]) / 2),
            y=counts,
            width=float(edges[1] - edges[0]),
            marker={"color": theme.PALETTE[0], "line": {"width": 0}},
            hovertemplate="%{x:.4g}: %{y:,}<extra></extra>",
        )
    )
    excluded_count = flat.size - finite.size
    if excluded_count:
        theme.add_note(
            fig, f"{excluded_count:,} of {flat.size:,} values are not finite or too large", colour=theme.PALETTE[3]
        )
    return fig.update_layout(bargap=0)


def _value_axis_title(unit: str) -> str:
    return f"value ({unit})" if unit else "value"
