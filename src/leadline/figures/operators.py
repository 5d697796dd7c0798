"""Bar chart of the top operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import plotly.graph_objects as go

from leadline.figures import theme
from leadline.figures.units import duration_unit

_ROW_PIXELS: Final = 22
_MAX_LABEL_CHARACTERS: Final = 60


def bars(
    rows: Sequence[Mapping[str, Any]],
    *,
    limit: int = 15,
    title: str = "Top operators",
    missing: str = "no detailed profile was recorded: leadline profile --detailed records one",
) -> go.Figure:
    """Draw a bar for each of the operators with the most own time, the longest at the top.

    Args:
        rows: From ``analysis.operators.top_operators``.
        limit: Maximum number of bars.
    """
    shown_rows = [row for row in rows if row["own_ns"] > 0][:limit]
    if not shown_rows:
        return theme.empty(missing, title)
    unit = duration_unit(shown_rows[0]["own_ns"] / 1e9)
    fig = theme.figure(title, x=unit.axis_title("own time"))
    devices = list(dict.fromkeys(row["device"] for row in shown_rows))
    device_suffix = {device: f" on {device}" if len(devices) > 1 and device != "cpu" else "" for device in devices}
    labels = theme.unique_labels(
        (row["label"] + device_suffix[row["device"]] for row in shown_rows), _MAX_LABEL_CHARACTERS
    )
    for index, device in enumerate(devices):
        device_rows = [(label, row) for label, row in zip(labels, shown_rows, strict=True) if row["device"] == device]
        fig.add_trace(
            go.Bar(
                orientation="h",
                y=[label for label, _ in device_rows],
                name=theme.plain_text(device, 40),
                x=theme.float32([row["own_ns"] / 1e9 * unit.factor for _, row in device_rows]),
                text=[f"{100 * row['share']:.1f} %" for _, row in device_rows],
                textposition="outside",
                cliponaxis=False,
                customdata=[
                    f"{row['calls']:,} calls, cumulative {100 * row['cumulative_share']:.0f} %"
                    for _, row in device_rows
                ],
                marker={"color": theme.series_colour(index)},
                hovertemplate=f"%{{y}}<br>%{{x:.3g}} {unit.name}, %{{text}}<br>%{{customdata}}<extra></extra>",
            )
        )
    fig.update_xaxes(range=[0, 1.2 * shown_rows[0]["own_ns"] / 1e9 * unit.factor])
    fig.update_yaxes(type="category", categoryorder="array", categoryarray=labels[::-1], showgrid=False)
    height = 150 + _ROW_PIXELS * len(shown_rows)
    return theme.set_legend(fig).update_layout(barmode="overlay", height=height, bargap=0.25)
