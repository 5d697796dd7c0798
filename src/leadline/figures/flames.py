"""The call tree of a Python profile as a flame graph that hangs from its root."""

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
    title: str = "Where Python spent its time",
    missing: str = "no call tree was recorded: leadline profile --python pyinstrument records one",
) -> go.Figure:
    """A box a call, as wide as it took long, below the one that called it; clicking one looks into it.

    Args:
        calls: As ``analysis.call_tree.call_tree`` gives them.
    """
    if not calls:
        return theme.empty(missing, title)
    whole = calls[0].total_ns
    shown = theme.figure(title)
    shown.add_trace(
        go.Icicle(
            ids=[each.id for each in calls],
            parents=[each.parent for each in calls],
            labels=[theme.plain(each.function, 48) for each in calls],
            values=np.array([each.total_ns for each in calls], np.float64),
            branchvalues="total",
            sort=False,
            text=[_words(each, whole) for each in calls],
            hovertemplate="%{label}<br>%{text}<extra></extra>",
            textinfo="label",
            tiling={"orientation": "v"},
            marker={"colors": [_colour(each) for each in calls], "line": {"width": 0.5, "color": theme.EDGE}},
            insidetextfont={"color": "#ffffff", "size": 11},
            pathbar={"visible": True},
        )
    )
    depth = max(each.id.count(".") for each in calls) + 1
    height = min(1200, max(300, 90 + 24 * depth))
    return shown.update_layout(height=height, margin={"l": 16, "b": 16}, uniformtext={"minsize": 9, "mode": "hide"})


def _words(call: CallNode, whole: int) -> str:
    took = f"{call.total_ns / 1e9:.3g} s ({share(call.total_ns / whole)}), {call.own_ns / 1e9:.3g} s of it its own"
    return f"{took}<br>{theme.plain(call.file, 70)}:{call.line}" if call.file else took


def _colour(call: CallNode) -> str:
    """One hue for one package, so that one sees whose time it is."""
    parts = call.file.replace("\\", "/").split("/")
    owner = parts[parts.index("site-packages") + 1] if "site-packages" in parts[:-1] else os.path.dirname(call.file)
    return theme.GREY if not call.file else theme.colour(sum(map(ord, owner)))
