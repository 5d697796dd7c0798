"""Several charts below each other on one time axis."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from leadline.figures import theme

_SPACE = 0.06
_ROW_PIXELS = 190


def linked(parts: Sequence[go.Figure], *, title: str = "", missing: str = "nothing was measured") -> go.Figure:
    """Charts over time as one, with an axis that they share: zooming or panning one moves all.

    Args:
        parts: From top to bottom; those that are empty are left out, and it is said why they are.
    """
    drawn = [each for each in parts if each.data]
    if not drawn:
        return theme.empty(missing, title)
    shown = theme.figure(title, barmode="stack", bargap=0, hovermode="x unified")
    height = (1.0 - _SPACE * (len(drawn) - 1)) / len(drawn)
    named: set[str] = set()
    for place, part in enumerate(drawn):
        top = 1.0 - place * (height + _SPACE)
        suffix = "" if place == 0 else str(place + 1)
        axis = {key: part.layout.yaxis[key] for key in ("range", "rangemode", "type") if part.layout.yaxis[key]}
        shown.update_layout(
            {
                f"yaxis{suffix}": {
                    **axis,
                    "domain": [max(0.0, top - height), top],
                    "title": {"text": part.layout.yaxis.title.text},
                }
            }
        )
        for trace in part.data:
            is_named = part.layout.showlegend and trace.showlegend is not False and trace.name not in named
            named |= {trace.name} if is_named else set()
            shown.add_trace(trace).data[-1].update(
                yaxis=f"y{suffix}", xaxis="x", showlegend=bool(is_named), legendgroup=trace.name
            )
    words = [each.layout.meta["empty"] for each in parts if not each.data and each.layout.meta]
    words += [note.text for each in drawn for note in each.layout.annotations]
    if words:
        theme.add_note(shown, theme.plain("; ".join(dict.fromkeys(words)), 120))
    shown.update_layout(xaxis={"anchor": f"y{len(drawn)}" if len(drawn) > 1 else "y"})
    theme.set_legend(theme.set_time_axis(shown))
    return shown.update_layout(height=130 + _ROW_PIXELS * len(drawn))
