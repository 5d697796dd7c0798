"""Charts of profile windows: top operators, operator calls over time, and call trees."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go

from leadline.analysis.call_tree import CallNode
from leadline.charts import theme
from leadline.charts.units import duration_unit
from leadline.records.formatting import latency, phase_label, share

if TYPE_CHECKING:
    import pyarrow as pa

_NO_OPERATORS: Final = "no detailed profile was recorded: leadline profile --detailed records one"
_NO_CALL_TREE: Final = "no call tree was recorded: leadline profile --python pyinstrument records one"
_BAR_PIXELS: Final = 22
_CALL_PIXELS: Final = 18
_MAX_LABEL_CHARACTERS: Final = 60
_MAX_CALLS: Final = 2500
_MAX_DEPTH: Final = 12


def bars(
    rows: Sequence[Mapping[str, Any]],
    *,
    limit: int = 15,
) -> go.Figure:
    """Draw a bar for each of the operators with the most own time, the longest at the top.

    Args:
        rows: From ``analysis.operators.top_operators``.
        limit: Maximum number of bars.
    """
    shown_rows = [row for row in rows if row["own_ns"] > 0][:limit]
    if not shown_rows:
        return theme.empty(_NO_OPERATORS, "Top operators")
    unit = duration_unit(shown_rows[0]["own_ns"] / 1e9)
    fig = theme.figure("Top operators", x=unit.axis_title("own time"))
    devices = list(dict.fromkeys(row["device"] for row in shown_rows))
    device_suffix = {device: f" on {device}" if len(devices) > 1 and device != "cpu" else "" for device in devices}
    labels = theme.unique_labels(
        (row["label"] + device_suffix[row["device"]] for row in shown_rows), _MAX_LABEL_CHARACTERS
    )
    for index, device in enumerate(devices):
        device_rows = [(label, row) for label, row in zip(labels, shown_rows, strict=True) if row["device"] == device]
        theme.add_bars(
            fig,
            theme.plain_text(device, 40),
            theme.float32([row["own_ns"] / 1e9 * unit.factor for _, row in device_rows]),
            [label for label, _ in device_rows],
            theme.series_colour(index),
            f"%{{y}}<br>%{{x:.3~g}} {unit.name}, %{{text}}<br>%{{customdata}}<extra></extra>",
            orientation="h",
            text=[f"{100 * row['share']:.1f} %" for _, row in device_rows],
            textposition="outside",
            cliponaxis=False,
            customdata=[
                f"{row['calls']:,} calls, cumulative {100 * row['cumulative_share']:.0f} %" for _, row in device_rows
            ],
        )
    fig.update_xaxes(range=[0, 1.2 * shown_rows[0]["own_ns"] / 1e9 * unit.factor])
    fig.update_yaxes(type="category", categoryorder="array", categoryarray=labels[::-1], showgrid=False)
    height = 150 + _BAR_PIXELS * len(shown_rows)
    return theme.set_legend(fig).update_layout(barmode="overlay", height=height, bargap=0.25)


def window(calls: pa.Table) -> go.Figure:
    """Draw the longest few thousand operator calls as bars over time, by device and thread, callers above callees.

    Args:
        calls: From ``Run.operator_calls``, of one window and worker.
    """
    if not calls.num_rows:
        return theme.empty("no operator was called in this window", "Operator calls in the window")
    rows = sorted(calls.to_pylist(), key=lambda row: (row["start_ns"], -row["total_ns"]))
    origin = rows[0]["start_ns"]
    longest = sorted(rows, key=lambda row: -row["total_ns"])[:_MAX_CALLS]
    longest_ids = {id(row) for row in longest}
    positioned, track_labels = _assign_rows(rows)
    visible = [(row, row_index) for row, row_index in positioned if id(row) in longest_ids]
    fig = theme.figure("Operator calls in the window", x="time since window start (ms)", barmode="overlay", bargap=0.1)
    phases: dict[str, list[tuple[Mapping[str, Any], int]]] = defaultdict(list)
    for row, row_index in visible:
        phases[row["phase"]].append((row, row_index))
    for phase, members in phases.items():
        theme.add_bars(
            fig,
            theme.plain_text(phase_label(phase), 30),
            theme.float32([row["total_ns"] / 1e6 for row, _ in members]),
            [row_index for _, row_index in members],
            theme.phase_colour(phase),
            "%{text}<br>%{x:.3~g} ms<extra></extra>",
            base=theme.float32([(row["start_ns"] - origin) / 1e6 for row, _ in members]),
            text=[_call_label(row) for row, _ in members],
            marker={"line": {"width": 0}},
            **theme.HORIZONTAL,
        )
    fig.update_yaxes(
        autorange="reversed",
        showgrid=False,
        tickvals=[row_index for row_index, _ in track_labels],
        ticktext=[name for _, name in track_labels],
    )
    depth = 1 + max(row_index for _, row_index in visible)
    theme.note_omitted(fig, len(rows) - len(visible), "shorter or deeper calls")
    return fig.update_layout(height=min(900, 140 + _CALL_PIXELS * max(4, depth)))


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


def icicle(calls: Sequence[CallNode]) -> go.Figure:
    """Draw a box for each call, its width proportional to its time, below its caller; clicking a box zooms into it.

    Args:
        calls: From ``analysis.call_tree.call_tree``.
    """
    if not calls:
        return theme.empty(_NO_CALL_TREE, "Python call tree")
    total_ns = calls[0].total_ns
    fig = theme.figure("Python call tree")
    fig.add_trace(
        go.Icicle(
            ids=[call.id for call in calls],
            parents=[call.parent for call in calls],
            labels=[theme.plain_text(call.function, 48) for call in calls],
            values=np.array([call.total_ns for call in calls], np.float64),
            branchvalues="total",
            sort=False,
            text=[_hover_text(call, total_ns) for call in calls],
            hovertemplate="%{label}<br>%{text}<extra></extra>",
            textinfo="label",
            tiling={"orientation": "v"},
            marker={"colors": [_colour(call) for call in calls], "line": {"width": 0.5, "color": theme.EDGE}},
            insidetextfont={"color": "#ffffff", "size": 11},
            pathbar={"visible": True},
        )
    )
    depth = max(call.id.count(".") for call in calls) + 1
    height = min(1200, max(300, 90 + 24 * depth))
    return fig.update_layout(height=height, margin={"l": 16, "b": 16}, uniformtext={"minsize": 9, "mode": "hide"})


def _hover_text(call: CallNode, total_ns: int) -> str:
    timing = (
        f"{latency(call.total_ns / 1e9)} ({share(call.total_ns / total_ns)}), {latency(call.own_ns / 1e9)} own time"
    )
    return f"{timing}<br>{theme.plain_text(call.file, 70)}:{call.line}" if call.file else timing


def _colour(call: CallNode) -> str:
    """Return a colour for each package."""
    parts = call.file.replace("\\", "/").split("/")
    package = parts[parts.index("site-packages") + 1] if "site-packages" in parts[:-1] else os.path.dirname(call.file)
    return theme.GREY if not call.file else theme.series_colour(sum(map(ord, package)))
