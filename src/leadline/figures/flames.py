"""Flame graph (icicle) of the call tree of a Python profile."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from leadline.analysis.call_tree import CallNode
from leadline.figures import theme
from leadline.records.formatting import share


def icicle(
    calls: Sequence[CallNode],
    *,
    title: str = "Python call tree",
    missing: str = "no call tree was recorded: leadline profile --python pyinstrument records one",
) -> go.Figure:
    """Draw a box for each call, its width proportional to its time, below its caller; clicking a box zooms into it.

    Args:
        calls: From ``analysis.call_tree.call_tree``.
    """
    if not calls:
        return theme.empty(missing, title)
    total_ns = calls[0].total_ns
    fig = theme.figure(title)
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
    timing = f"{call.total_ns / 1e9:.3g} s ({share(call.total_ns / total_ns)}), {call.own_ns / 1e9:.3g} s own time"
    return f"{timing}<br>{theme.plain_text(call.file, 70)}:{call.line}" if call.file else timing


def _colour(call: CallNode) -> str:
    """Return a colour for each package."""
    parts = call.file.replace("\\", "/").split("/")
    package = parts[parts.index("site-packages") + 1] if "site-packages" in parts[:-1] else os.path.dirname(call.file)
    return theme.GREY if not call.file else theme.series_colour(sum(map(ord, package)))
