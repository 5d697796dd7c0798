"""Markers of findings, interruptions and trainings on a chart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from leadline.charts import theme
from leadline.records.incarnations import Interruption

_MAX_FINDINGS: Final = 60
_MIN_FLAG_DISTANCE: Final = 0.03
"""As a share of the axis; closer flags would overlap."""
_MAX_LISTED: Final = 8
_MAX_LISTED_CHARACTERS: Final = 200
_COLOUR: Final = "#c62828"
"""Dark enough for white numbers."""
_INTERRUPTION: Final = "#757575"
_MAX_INTERRUPTIONS: Final = 20
_TRAINING: Final = "#9e9e9e"
_MAX_TRAININGS: Final = 50
_MAX_NUMBERED: Final = 8
"""Of more trainings than these, only the second is numbered."""
_FLAG: Final = {
    "y": 1,
    "yref": "paper",
    "xanchor": "center",
    "yanchor": "bottom",
    "showarrow": False,
    "borderpad": 1,
    "name": "flag",
}


def mark(fig: go.Figure, findings: Iterable[Mapping[str, Any]]) -> go.Figure:
    """Mark findings by vertical lines with numbered flags; what they are shows on hover, and in a list on pages.

    Args:
        fig: A chart over steps or time; any other is returned unchanged.
        findings: Rows of ``Run.findings``; the first sixty are marked, the first eight are listed.
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
    line = {"color": _COLOUR, "width": 1, "dash": "dot"}
    for x in dict.fromkeys(positions):
        fig.add_shape(type="line", x0=x, x1=x, y0=0, y1=1, yref="paper", layer="above", name="finding", line=line)
    for x, text in _flags(fig, positions):
        fig.add_annotation(
            **_FLAG, x=x, text=text, bgcolor=_COLOUR, bordercolor=_COLOUR, font={"color": "#ffffff", "size": 10}
        )
    _add_hover_points(fig, positions, marked)
    listed = marked[:_MAX_LISTED]
    first = {row["rule"]: row for row in reversed(listed)}
    flags = [
        {"rule": row["rule"], "id": row["id"], "text": _listed_text(row, is_first=row is first[row["rule"]])}
        for row in listed
    ]
    fig.update_layout(meta={**(fig.layout.meta or {}), "flags": flags, "more_flags": len(rows) - len(flags)})
    return theme.note_omitted(fig, len(rows) - len(marked), "findings")


def mark_interruptions(fig: go.Figure, interruptions: Sequence[Interruption]) -> go.Figure:
    """Mark where a run was resumed after an interruption, by a dashed line; the latest twenty are marked.

    Args:
        fig: A chart over steps or time; any other is returned unchanged.
    """
    axis = (fig.layout.meta or {}).get("axis")
    begun = [what for what in interruptions if what.resumed_step is not None]
    if axis not in ("step", "time") or not fig.data or not begun:
        return fig
    marked = begun[-_MAX_INTERRUPTIONS:]
    times = theme.epoch_ms([what.resumed_ns for what in marked]).tolist()
    steps = [what.resumed_step for what in marked]
    line = {"color": _INTERRUPTION, "width": 1, "dash": "dash"}
    for index, x in enumerate(times if axis == "time" else steps):
        fig.add_shape(type="line", x0=x, x1=x, y0=0, y1=1, yref="paper", layer="below", name="interruption", line=line)
        text = "resumed" if index == 0 else ""
        fig.add_annotation(**{**_FLAG, "name": "resumed"}, x=x, text=text, font={"color": _INTERRUPTION, "size": 10})
    return theme.note_omitted(fig, len(begun) - len(marked), "interruptions")


def mark_trainings(fig: go.Figure, starts: Sequence[int]) -> go.Figure:
    """Mark where trainings begin that follow the first one, by a dotted line; the first fifty are marked.

    Args:
        fig: A chart over steps; any other is returned unchanged.
        starts: The first train step of each training.
    """
    following = starts[1:]
    if (fig.layout.meta or {}).get("axis") != "step" or not fig.data or not following:
        return fig
    line = {"color": _TRAINING, "width": 1, "dash": "dot"}
    for x in following[:_MAX_TRAININGS]:
        fig.add_shape(type="line", x0=x, x1=x, y0=0, y1=1, yref="paper", layer="below", name="training", line=line)
    text = {**_FLAG, "name": "training", "font": {"color": _TRAINING, "size": 10}}
    numbered = following if len(following) <= _MAX_NUMBERED else following[:1]
    for number, x in enumerate(numbered, start=2):
        fig.add_annotation(**text, x=x, text="training 2" if number == 2 else f"{number}")
    return theme.note_omitted(fig, len(following) - _MAX_TRAININGS, "trainings")


def _flags(fig: go.Figure, positions: list[Any]) -> Iterator[tuple[Any, str]]:
    """Yield the positions and texts of flags; findings close together share one: ``2–4``."""
    ends = [
        float(end)
        for trace in fig.data
        if trace.x is not None and len(trace.x)
        for end in (np.nanmin(np.asarray(trace.x, float)), np.nanmax(np.asarray(trace.x, float)))
    ]
    min_distance = _MIN_FLAG_DISTANCE * (max([*ends, *positions]) - min([*ends, *positions]))
    first = 0
    for index in range(1, len(positions) + 1):
        if index == len(positions) or positions[index] - positions[first] > min_distance:
            yield positions[first], str(index) if index == first + 1 else f"{first + 1}–{index}"
            first = index


def _listed_text(row: Mapping[str, Any], *, is_first: bool) -> str:
    """Return the message of a finding; of a rule that is listed above, only its first part."""
    message = row["message"] if is_first else row["message"].partition("; ")[0]
    return _text({**row, "message": message}, _MAX_LISTED_CHARACTERS)


def _text(row: Mapping[str, Any], max_characters: int) -> str:
    message = theme.plain_text(row["message"], max_characters)
    return f"{theme.plain_text(row['rule'], 40)}, step {row['step']:,}: {message}"


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
            text=[f"{number}. {_text(row, 110)}" for number, row in enumerate(rows, 1)],
            hovertemplate="%{text}<extra></extra>",
            customdata=[[row["rule"], row["id"], row["step"]] for row in rows],
        )
    )
