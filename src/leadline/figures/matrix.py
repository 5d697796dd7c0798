"""A matrix as an image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import plotly.graph_objects as go

from leadline.figures import theme

if TYPE_CHECKING:
    import numpy.typing as npt

_MAX_CELLS: Final = 400


def matrix(
    values: npt.NDArray[np.float64] | None,
    *,
    title: str = "Values as an image",
    x: str = "column",
    y: str = "row",
    missing: str = "there is no matrix to draw",
) -> go.Figure:
    """Draw values on a diverging colour scale; non-finite values are gaps.

    Args:
        values: ``(rows, columns)``; above 400 in a dimension every second, third … is drawn, with a note. None:
            unknown.
    """
    if values is None or not values.size:
        return theme.empty(missing, title)
    row_step, column_step = (max(1, -(-size // _MAX_CELLS)) for size in values.shape)
    cells = values[::row_step, ::column_step]
    finite = np.abs(cells[np.isfinite(cells)])
    limit = float(finite.max()) if finite.size else 1.0
    fig = theme.figure(title, x=x, y=y)
    fig.add_trace(
        go.Heatmap(
            z=theme.float32(cells),
            x=np.arange(cells.shape[1]) * column_step,
            y=np.arange(cells.shape[0]) * row_step,
            colorscale="RdBu",
            reversescale=True,
            zmin=-limit,
            zmax=limit,
            hoverongaps=False,
            hovertemplate="[%{y}, %{x}]: %{z:.5g}<extra></extra>",
            colorbar={"title": {"text": "value", "side": "right"}, "thickness": 12, "outlinewidth": 0},
        )
    )
    fig.update_yaxes(autorange="reversed")
    if max(row_step, column_step) > 1:
        fig.add_annotation(
            text=f"drawn: 1 in {row_step:,} rows, 1 in {column_step:,} columns",
            showarrow=False,
            x=1,
            y=1,
            xref="paper",
            yref="paper",
            xanchor="right",
            yanchor="bottom",
        )
    return fig
