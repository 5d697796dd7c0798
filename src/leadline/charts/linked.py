"""Several charts stacked on one time axis."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from leadline.charts import theme

_SPACE = 0.06
_ROW_PIXELS = 190


def linked(parts: Sequence[go.Figure], *, title: str = "", missing: str = "nothing was measured") -> go.Figure:
    """Stack charts over time on a shared axis: zooming or panning one moves all.

    Args:
        parts: From top to bottom; empty ones are omitted and their messages are shown as a note.
    """
    visible = [part for part in parts if part.data]
    if not visible:
        return theme.empty(missing, title)
    fig = theme.figure(title, barmode="stack", bargap=0, hovermode="x unified")
    height = (1.0 - _SPACE * (len(visible) - 1)) / len(visible)
    shown_names: set[str] = set()
    for index, part in enumerate(visible):
        top = 1.0 - index * (height + _SPACE)
        suffix = "" if index == 0 else str(index + 1)
        axis = {key: part.layout.yaxis[key] for key in ("range", "rangemode", "type") if part.layout.yaxis[key]}
        fig.update_layout(
            {
                f"yaxis{suffix}": {
                    **axis,
                    "domain": [max(0.0, top - height), top],
                    "title": {"text": part.layout.yaxis.title.text},
                }
            }
        )
        for trace in part.data:
            has_legend = part.layout.showlegend and trace.showlegend is not False and trace.name not in shown_names
            shown_names |= {trace.name} if has_legend else set()
            fig.add_trace(trace).data[-1].update(
                yaxis=f"y{suffix}", xaxis="x", showlegend=bool(has_legend), legendgroup=trace.name
            )
    notes = [part.layout.meta["empty"] for part in parts if not part.data and part.layout.meta]
    notes += [note.text for part in visible for note in part.layout.annotations]
    if notes:
        theme.add_note(fig, theme.plain_text("; ".join(dict.fromkeys(notes)), 120))
    fig.update_layout(xaxis={"anchor": f"y{len(visible)}" if len(visible) > 1 else "y"})
    theme.set_legend(theme.set_time_axis(fig))
    return fig.update_layout(height=130 + _ROW_PIXELS * len(visible))
