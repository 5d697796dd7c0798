"""Timeline of the operator calls within a profile window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go

from leadline.figures import theme

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_BARS: Final = 2500
_MAX_DEPTH: Final = 12
_ROW_PIXELS: Final = 18


def window(
    calls: pa.Table,
    *,
    title: str = "Operator calls in the window",
    missing: str = "no operator was called in this window",
) -> go.Figure:
    """Draw the longest few thousand operator calls as bars over time, by device and thread, callers above callees.

    Args:
        calls: From ``Run.operator_calls``, of one window and worker.
    """
    if not calls.num_rows:
        return theme.empty(missing, title)
    rows = sorted(calls.to_pylist(), key=lambda row: (row["start_ns"], -row["total_ns"]))
    origin = rows[0]["start_ns"]
    longest = sorted(rows, key=lambda row: -row["total_ns"])[:_MAX_BARS]
    longest_ids = {id(row) for row in longest}
    positioned, track_labels = _assign_rows(rows)
    visible = [(row, row_index) for row, row_index in positioned if id(row) in longest_ids]
    fig = theme.figure(title, x="time since window start (ms)", barmode="overlay", bargap=0.1)
    phases: dict[str, list[tuple[Mapping[str, Any], int]]] = defaultdict(list)
    for row, row_index in visible:
        phases[row["phase"]].append((row, row_index))
    for phase, members in phases.items():
        fig.add_trace(_bars(phase, members, origin))
    fig.update_yaxes(
        autorange="reversed",
        showgrid=False,
        tickvals=[row_index for row_index, _ in track_labels],
        ticktext=[name for _, name in track_labels],
    )
    depth = 1 + max(row_index for _, row_index in visible)
    theme.note_omitted(fig, len(rows) - len(visible), "shorter or deeper calls")
    return fig.update_layout(height=min(900, 140 + _ROW_PIXELS * max(4, depth)))


def _bars(phase: str, members: list[tuple[Mapping[str, Any], int]], origin: int) -> go.Bar:
    return go.Bar(
        orientation="h",
        name=theme.plain_text(phase, 30),
        marker={"color": theme.phase_colour(phase), "line": {"width": 0}},
        base=theme.float32([(row["start_ns"] - origin) / 1e6 for row, _ in members]),
        x=theme.float32([row["total_ns"] / 1e6 for row, _ in members]),
        y=[row_index for _, row_index in members],
        text=[_call_label(row) for row, _ in members],
        textposition="none",
        hovertemplate="%{text}<br>%{x:.3g} ms<extra></extra>",
    )


def _call_label(row: Mapping[str, Any]) -> str:
    name = theme.plain_text(str(row["operator"]).removeprefix("aten::"), 60)
    module = f" in {theme.plain_text(row['module'], 50)}" if row["module"] else ""
    return f"{name}{module}, step {row['step']:,}"


def _assign_rows(
    rows: Iterable[Mapping[str, Any]],
) -> tuple[list[tuple[Mapping[str, Any], int]], list[tuple[int, str]]]:
    """Return each call with its chart row, and the first row and label of each device and thread."""
    tracks: dict[tuple[str, Any], list[tuple[Mapping[str, Any], int]]] = defaultdict(list)
    ends: dict[tuple[str, Any], list[int]] = defaultdict(list)
    for row in rows:
        track = (row["device"], row["thread"])
        open_ends = ends[track]
        while open_ends and open_ends[-1] <= row["start_ns"]:
            open_ends.pop()
        if len(open_ends) < _MAX_DEPTH:
            tracks[track].append((row, len(open_ends)))
        open_ends.append(row["start_ns"] + row["total_ns"])
    positioned, labels, first_row = [], [], 0
    for index, (track, members) in enumerate(
        sorted(tracks.items(), key=lambda item: (item[0][0] != "cpu", str(item[0])))
    ):
        tracks_of_device = sum(1 for device, _ in tracks if device == track[0])
        labels.append(
            (first_row, theme.plain_text(track[0], 20) + (f", thread {index + 1}" if tracks_of_device > 1 else ""))
        )
        positioned += [(row, first_row + depth) for row, depth in members]
        first_row += int(np.max([depth for _, depth in members])) + 1
    return positioned, labels
