"""Findings, marked on a chart where they were made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from leadline.figures import theme

_MOST: Final = 60
_MOST_LABELS: Final = 8
_NEAR: Final = 0.03
"""Of the axis; nearer labels would hide each other."""
_MOST_LETTERS: Final = 22
"""Of a label: more would not fit beside the line of a small chart."""
_LABEL: Final = {
    "textposition": "end",
    "textangle": -90,
    "font": {"size": 10},
    "xanchor": "right",
    "yanchor": "top",
    "padding": 2,
}
_COLOUR: Final = theme.PALETTE[3]


def mark(shown: go.Figure, findings: Iterable[Mapping[str, Any]]) -> go.Figure:
    """Mark findings by vertical lines, with the rule's name at the first of each rule; the words show on hovering.

    Args:
        shown: A chart over steps or over time; any other is left as it is.
        findings: Rows of ``Run.findings``; the first sixty of them are marked.
    """
    axis = (shown.layout.meta or {}).get("axis")
    rows = sorted(findings, key=lambda each: int(each["step"] if axis == "step" else each["time_ns"]))
    if axis not in ("step", "time") or not rows:
        return shown
    drawn = rows[:_MOST]
    places = (
        theme.moments([each["time_ns"] for each in drawn]).tolist()
        if axis == "time"
        else [each["step"] for each in drawn]
    )
    labels = _labels(shown, places, drawn)
    for at, x in enumerate(places):
        label = {"label": {**_LABEL, "text": labels[at]}} if at in labels else {}
        shown.add_shape(
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
    _add_words(shown, places, drawn)
    return theme.left_out(shown, len(rows) - len(drawn), "findings")


def _labels(shown: go.Figure, places: list[Any], rows: list[Mapping[str, Any]]) -> dict[int, str]:
    """The names of rules by the place of the line that bears them: each rule's at its first, near ones on one line."""
    ends = [
        float(each)
        for trace in shown.data
        if trace.x is not None and len(trace.x)
        for each in (np.nanmin(np.asarray(trace.x, float)), np.nanmax(np.asarray(trace.x, float)))
    ]
    near = _NEAR * (max([*ends, *places]) - min([*ends, *places]))
    named: dict[str, None] = {}
    bearers: dict[int, list[str]] = {}
    for at, (x, row) in enumerate(zip(places, rows, strict=True)):
        if row["rule"] in named or len(named) >= _MOST_LABELS:
            continue
        named[row["rule"]] = None
        bearer = next((each for each in bearers if abs(places[each] - x) <= near), at)
        bearers.setdefault(bearer, []).append(row["rule"])
    return {
        at: theme.plain(names[0], _MOST_LETTERS) + (f" +{len(names) - 1}" if len(names) > 1 else "")
        for at, names in bearers.items()
    }


def _add_words(shown: go.Figure, places: list[Any], rows: list[Mapping[str, Any]]) -> None:
    """Points at the foot of the lines that tell on hovering what was found, and know which finding they are."""
    shown.update_layout(yaxis9={"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True})
    shown.add_trace(
        go.Scatter(
            x=places,
            y=[0.015] * len(places),
            yaxis="y9",
            mode="markers",
            name="finding",
            showlegend=False,
            marker={"symbol": "triangle-up", "size": 9, "color": _COLOUR},
            cliponaxis=False,
            text=[
                f"{theme.plain(each['rule'], 40)}, step {each['step']:,}: {theme.plain(each['message'], 110)}"
                for each in rows
            ],
            hovertemplate="%{text}<extra></extra>",
            customdata=[[each["rule"], each["id"], each["step"]] for each in rows],
        )
    )
