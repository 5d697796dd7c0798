"""The values of a tensor: how they are spread at a step, and how that changed from step to step."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from leadline.analysis.histograms import MOST, Histograms, even_edges
from leadline.figures import theme

_MOST_RIDGES: Final = 12
_OVERLAP: Final = 1.8


def over_steps(
    found: Histograms, *, title: str = "", unit: str = "", missing: str = "no histogram was captured"
) -> go.Figure:
    """Histograms over steps as a heat map: the share of the elements in each bin.

    Args:
        found: As ``analysis.histograms.read_histograms`` gives them.
        unit: Of the values.
    """
    if not found.steps:
        return theme.empty(missing, title)
    shares = 100.0 * found.shares()
    middles = (found.edges[1:] + found.edges[:-1]) / 2
    shown = theme.figure(title or f"{theme.plain(found.tensor)} over steps", y=_titled(unit))
    shown.add_trace(
        go.Heatmap(
            x=np.asarray(found.steps),
            y=theme.numbers(middles),
            z=theme.numbers(shares.T.round(2)),
            colorscale=theme.MAGNITUDES,
            zmin=0,
            hoverongaps=False,
            hovertemplate="step %{x:,}, %{y:.3g}: %{z:.2f} %<extra></extra>",
            colorbar={"title": {"text": "elements (%)", "side": "right"}, "thickness": 12, "outlinewidth": 0},
        )
    )
    return theme.set_step_axis(shown)


def ridge(
    found: Histograms, *, title: str = "", unit: str = "", missing: str = "no histogram was captured"
) -> go.Figure:
    """Histograms as curves behind each other, the first step at the back; of many steps some, evenly chosen."""
    if not found.steps:
        return theme.empty(missing, title)
    count = len(found.steps)
    chosen = np.unique(np.linspace(0, count - 1, min(count, _MOST_RIDGES)).round().astype(int))
    shares = found.shares()[chosen]
    scale = _OVERLAP / float(shares.max() or 1.0)
    middles = theme.numbers((found.edges[1:] + found.edges[:-1]) / 2)
    shown = theme.figure(title or f"{theme.plain(found.tensor)}, step by step", x=_titled(unit), y="step")
    for place, row in enumerate(shares):
        floor = len(chosen) - 1 - place
        hue = theme.PALETTE[0]
        shown.add_trace(
            go.Scatter(
                x=np.concatenate([middles, middles[::-1]]),
                y=theme.numbers(np.concatenate([floor + scale * row, np.full(len(row), floor)])),
                mode="lines",
                line={"color": hue, "width": 1},
                fill="toself",
                fillcolor=theme.faint(hue, 0.35),
                hoverinfo="name",
                name=f"step {found.steps[chosen[place]]:,}",
                showlegend=False,
            )
        )
    ticks = [f"{found.steps[each]:,}" for each in chosen][::-1]
    shown.update_yaxes(tickvals=list(range(len(chosen))), ticktext=ticks)
    return shown


def at_step(
    values: Any,
    *,
    tensor: str,
    step: int,
    unit: str = "",
    bins: int = 60,
    title: str = "",
    missing: str = "the tensor itself was not stored at this step",
) -> go.Figure:
    """How the values of a tensor are spread at one step; what is not finite is counted in words.

    Args:
        values: Its elements, ``(*shape,)``; None: they are not known.
    """
    if values is None:
        return theme.empty(missing, title)
    flat = np.asarray(values, np.float64).ravel()
    finite = flat[np.abs(flat) <= MOST]  # no NaN is
    if not finite.size:
        return theme.empty("none of the values is finite" if flat.size else "the tensor has no elements", title)
    counts, edges = np.histogram(finite, even_edges(finite.min(), finite.max(), bins))
    shown = theme.figure(title or f"{theme.plain(tensor)} at step {step:,}", x=_titled(unit), y="elements (count)")
    shown.add_trace(
        go.Bar(
            x=theme.numbers((edges[1:] + edges[:-1]) / 2),
            y=counts,
            width=float(edges[1] - edges[0]),
            marker={"color": theme.PALETTE[0], "line": {"width": 0}},
            hovertemplate="%{x:.4g}: %{y:,}<extra></extra>",
        )
    )
    lost = flat.size - finite.size
    if lost:
        theme.add_note(shown, f"{lost:,} of {flat.size:,} values are not finite or too large", hue=theme.PALETTE[3])
    return shown.update_layout(bargap=0)


def _titled(unit: str) -> str:
    return f"value ({unit})" if unit else "value"
