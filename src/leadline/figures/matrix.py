"""A matrix as it is: a cell for each value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import plotly.graph_objects as go

from leadline.figures import theme

if TYPE_CHECKING:
    import numpy.typing as npt

_MOST_CELLS: Final = 400


def matrix(
    values: npt.NDArray[np.float64] | None,
    *,
    title: str = "The values as an image",
    x: str = "column",
    y: str = "row",
    missing: str = "there is no matrix to draw",
) -> go.Figure:
    """Values as colours, negative and positive ones apart; what is not finite is a gap.

    Args:
        values: ``(rows, columns)``; of more than 400 either way every second, third … is drawn, and it says so. None:
            they are not known.
    """
    if values is None or not values.size:
        return theme.empty(missing, title)
    rows, columns = (max(1, -(-size // _MOST_CELLS)) for size in values.shape)
    drawn = values[::rows, ::columns]
    finite = np.abs(drawn[np.isfinite(drawn)])
    most = float(finite.max()) if finite.size else 1.0
    shown = theme.figure(title, x=x, y=y)
    shown.add_trace(
        go.Heatmap(
            z=theme.numbers(drawn),
            x=np.arange(drawn.shape[1]) * columns,
            y=np.arange(drawn.shape[0]) * rows,
            colorscale="RdBu",
            reversescale=True,
            zmin=-most,
            zmax=most,
            hoverongaps=False,
            hovertemplate="[%{y}, %{x}]: %{z:.5g}<extra></extra>",
            colorbar={"title": {"text": "value", "side": "right"}, "thickness": 12, "outlinewidth": 0},
        )
    )
    shown.update_yaxes(autorange="reversed")
    if max(rows, columns) > 1:
        shown.add_annotation(
            text=f"drawn: one row of {rows:,}, one column of {columns:,}",
            showarrow=False,
            x=1,
            y=1,
            xref="paper",
            yref="paper",
            xanchor="right",
            yanchor="bottom",
        )
    return shown
