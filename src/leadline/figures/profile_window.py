"""What happened within a profiling window: every call as a bar, callers above what they call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go

from leadline.figures import theme

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_BARS: Final = 2500
_MOST_DEPTH: Final = 12
_ROW_PIXELS: Final = 18


def window(
    calls: pa.Table,
    *,
    title: str = "Operators of the window, call by call",
    missing: str = "no operator was called in this window",
) -> go.Figure:
    """Operator calls as bars over time, by device and thread; the longest few thousand of them.

    Args:
        calls: As ``Run.operator_calls`` gives them, of one window and worker.
    """
    if not calls.num_rows:
        return theme.empty(missing, title)
    rows = sorted(calls.to_pylist(), key=lambda each: (each["start_ns"], -each["total_ns"]))
    origin = rows[0]["start_ns"]
    longest = sorted(rows, key=lambda each: -each["total_ns"])[:_MOST_BARS]
    kept = {id(each) for each in longest}
    placed, lanes = _placed(rows)
    drawn = [(row, lane) for row, lane in placed if id(row) in kept]
    shown = theme.figure(title, x="time since the begin of the window (ms)", barmode="overlay", bargap=0.1)
    phases: dict[str, list[tuple[Mapping[str, Any], int]]] = defaultdict(list)
    for row, lane in drawn:
        phases[row["phase"]].append((row, lane))
    for phase, members in phases.items():
        shown.add_trace(_bars(phase, members, origin))
    shown.update_yaxes(
        autorange="reversed",
        showgrid=False,
        tickvals=[place for place, _ in lanes],
        ticktext=[name for _, name in lanes],
    )
    depth = 1 + max(lane for _, lane in drawn)
    theme.left_out(shown, len(rows) - len(drawn), "shorter or deeper calls")
    return shown.update_layout(height=min(900, 140 + _ROW_PIXELS * max(4, depth)))


def _bars(phase: str, members: list[tuple[Mapping[str, Any], int]], origin: int) -> go.Bar:
    return go.Bar(
        orientation="h",
        name=theme.plain(phase, 30),
        marker={"color": theme.phase_colour(phase), "line": {"width": 0}},
        base=theme.numbers([(row["start_ns"] - origin) / 1e6 for row, _ in members]),
        x=theme.numbers([row["total_ns"] / 1e6 for row, _ in members]),
        y=[lane for _, lane in members],
        text=[_words(row) for row, _ in members],
        textposition="none",
        hovertemplate="%{text}<br>%{x:.3g} ms<extra></extra>",
    )


def _words(row: Mapping[str, Any]) -> str:
    name = theme.plain(str(row["operator"]).removeprefix("aten::"), 60)
    module = f" in {theme.plain(row['module'], 50)}" if row["module"] else ""
    return f"{name}{module}, step {row['step']:,}"


def _placed(rows: Iterable[Mapping[str, Any]]) -> tuple[list[tuple[Mapping[str, Any], int]], list[tuple[int, str]]]:
    """Each call with the row that it is drawn in, and the first row of each device and thread with its name."""
    tracks: dict[tuple[str, Any], list[tuple[Mapping[str, Any], int]]] = defaultdict(list)
    ends: dict[tuple[str, Any], list[int]] = defaultdict(list)
    for row in rows:
        track = (row["device"], row["thread"])
        under_way = ends[track]
        while under_way and under_way[-1] <= row["start_ns"]:
            under_way.pop()
        if len(under_way) < _MOST_DEPTH:
            tracks[track].append((row, len(under_way)))
        under_way.append(row["start_ns"] + row["total_ns"])
    placed, lanes, first = [], [], 0
    for place, (track, members) in enumerate(
        sorted(tracks.items(), key=lambda each: (each[0][0] != "cpu", str(each[0])))
    ):
        same = sum(1 for device, _ in tracks if device == track[0])
        lanes.append((first, theme.plain(track[0], 20) + (f", thread {place + 1}" if same > 1 else "")))
        placed += [(row, first + depth) for row, depth in members]
        first += int(np.max([depth for _, depth in members])) + 1
    return placed, lanes
