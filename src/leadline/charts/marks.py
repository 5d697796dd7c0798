"""Markers of findings on a chart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from leadline.charts import theme

_MAX_FINDINGS: Final = 60
_MAX_LABELS: Final = 8
_MIN_LABEL_DISTANCE: Final = 0.03
"""As a share of the axis; closer labels would overlap."""
_MAX_LABEL_CHARACTERS: Final = 22
"""Longer labels do not fit beside the line in a small chart."""
_LABEL: Final = {
    "textposition": "end",
    "textangle": -90,
    "font": {"size": 10},
    "xanchor": "right",
    "yanchor": "top",
    "padding": 2,
}
_COLOUR: Final = theme.PALETTE[3]


def mark(fig: go.Figure, findings: Iterable[Mapping[str, Any]]) -> go.Figure:
    """Mark findings by vertical lines, labelled with the rule at its first finding; details show on hover.

    Args:
        fig: A chart over steps or time; any other is returned unchanged.
        findings: Rows of ``Run.findings``; the first sixty are marked.
    """
    axis = (fig.layout.meta or {}).get("axis")
    rows = sorted(findings, key=lambda row: int(row["step"] if axis == "step" else row["time_ns"]))
    if axis not in ("step", "time") or not rows:
        return fig
    marked = rows[:_MAX_FINDINGS]
    positions = (
        theme.epoch_ms([row["time_ns"] for row in marked]).tolist()
        if axis == "time"
        else [row["step"] for row in marked]
    )
    labels = _labels(fig, positions, marked)
    for index, x in enumerate(positions):
        label = {"label": {**_LABEL, "text": labels[index]}} if index in labels else {}
        fig.add_shape(
            type="line",
            x0=x,
            x1=x,
            y0=0,
            y1=1,
            yref="paper",
            layer="above",
            name="finding",
            line={"color": _COLOUR, "width": 1, "dash": "dot"},
            **label,
        )
    _add_hover_points(fig, positions, marked)
    return theme.note_omitted(fig, len(rows) - len(marked), "findings")


def _labels(fig: go.Figure, positions: list[Any], rows: list[Mapping[str, Any]]) -> dict[int, str]:
    """Return labels by line index: each rule at its first finding, rules close together on one line."""
    ends = [
        float(end)
        for trace in fig.data
        if trace.x is not None and len(trace.x)
        for end in (np.nanmin(np.asarray(trace.x, float)), np.nanmax(np.asarray(trace.x, float)))
    ]
    min_distance = _MIN_LABEL_DISTANCE * (max([*ends, *positions]) - min([*ends, *positions]))
    labelled: dict[str, None] = {}
    rules_by_line: dict[int, list[str]] = {}
    for index, (x, row) in enumerate(zip(positions, rows, strict=True)):
        if row["rule"] in labelled or len(labelled) >= _MAX_LABELS:
            continue
        labelled[row["rule"]] = None
        line_index = next((line for line in rules_by_line if abs(positions[line] - x) <= min_distance), index)
        rules_by_line.setdefault(line_index, []).append(row["rule"])
    return {
        index: theme.plain_text(names[0], _MAX_LABEL_CHARACTERS) + (f" +{len(names) - 1}" if len(names) > 1 else "")
        for index, names in rules_by_line.items()
    }


def _add_hover_points(fig: go.Figure, positions: list[Any], rows: list[Mapping[str, Any]]) -> None:
    """Add points at the bottom of the lines with the message as hover text and the finding as custom data."""
    fig.update_layout(yaxis9={"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True})
    fig.add_trace(
        go.Scatter(
            x=positions,
            y=[0.015] * len(positions),
            yaxis="y9",
            mode="markers",
            name="finding",
            showlegend=False,
            marker={"symbol": "triangle-up", "size": 9, "color": _COLOUR},
            cliponaxis=False,
            text=[
                f"{theme.plain_text(row['rule'], 40)}, step {row['step']:,}: {theme.plain_text(row['message'], 110)}"
                for row in rows
            ],
            hovertemplate="%{text}<extra></extra>",
            customdata=[[row["rule"], row["id"], row["step"]] for row in rows],
        )
    )
