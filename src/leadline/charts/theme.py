"""Common look of all figures: palette, template, axes, escaped text, empty figures."""

from __future__ import annotations

import html
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go

from leadline.records.names import PHASES

if TYPE_CHECKING:
    import numpy.typing as npt

PALETTE: Final = ("#3677d9", "#d97e16", "#29a67c", "#bf1386", "#1386bf", "#853df2")
"""Contrast at least 3:1 against white and near black; distinguishable with protanopia and deuteranopia (CIELAB distance
of 18 or more, simulated after Machado, Oliveira and Fernandes 2009)."""
FAULT: Final = "#e53939"
"""For faults alone: values that are not finite, and what is too slow or was interrupted."""
GREY: Final = "#8a8f98"
"""For remainders and secondary data."""
TEXT: Final = "#7b8490"
"""Readable on light and dark backgrounds; the dashboard replaces it with the page's colour."""
EDGE: Final = "rgba(128,128,128,0.6)"
GRID: Final = "rgba(128,128,128,0.22)"
NOT_CAPTURED: Final = "rgba(128,128,128,0.28)"
"""Ground of a heat map, seen where a cell has no value."""
DASHES: Final = ("solid", "dash", "dot", "dashdot")
PHASE_COLOURS: Final = {
    "data": PALETTE[1],
    "host": PALETTE[3],
    "copy": PALETTE[3],
    "forward": PALETTE[0],
    "backward": PALETTE[5],
    "optimizer": PALETTE[2],
    "compute": PALETTE[0],
    "collective": "#8a6d1f",
    "checkpoint": PALETTE[4],
    "watching": "#5d6b82",
    "other": GREY,
    "eval": PALETTE[4],
    "predict": PALETTE[3],
    "train": PALETTE[0],
    "initialization": "#8494a8",
    "training_loop": "#14808c",
    "finalization": "#6b7787",
}
"""Colour of each phase of a job or step, the same in every chart."""
UTILIZATION_SCALE: Final = "Cividis"
"""Colour scale of utilization, 0–100 %."""
MAGNITUDE_SCALE: Final = "Viridis"
"""Colour scale of magnitudes."""
MAX_SERIES: Final = 20
"""Maximum number of lines in a chart; further ones are only counted."""
MAX_CHARACTERS: Final = 80
_MAX_MESSAGE_CHARACTERS: Final = 250
MAX_BANDS: Final = 4
"""With more series, bands would hide each other."""
HORIZONTAL: Final = {"orientation": "h", "textposition": "none"}
"""Properties of horizontal bars whose text is shown on hover only."""
VALUE_ON_HOVER: Final = "%{y:.3~g}"
_TIME_TICKS: Final = [
    {"dtickrange": [None, 999], "value": "%H:%M:%S.%L"},
    {"dtickrange": [1000, 59_999], "value": "%H:%M:%S"},
    {"dtickrange": [60_000, 86_400_000], "value": "%H:%M\n%b %-d"},
    {"dtickrange": [86_400_000, None], "value": "%b %-d"},
]
_LEGEND_PIXELS: Final = 540
_FEW_STEPS: Final = 6
"""Up to this many steps, each has a tick."""
_DIRECTIONS: Final = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Unicode direction marks, which can disguise a name."""

_AXIS: Final = {
    "gridcolor": GRID,
    "zeroline": False,
    "linecolor": GRID,
    "ticks": "outside",
    "tickcolor": GRID,
    "ticklen": 4,
    "automargin": True,
    "title": {"standoff": 8},
}
TEMPLATE: Final = go.layout.Template(
    layout={
        "colorway": PALETTE,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": TEXT},
        "title": {
            "x": 0,
            "xref": "paper",
            "xanchor": "left",
            "font": {"size": 14},
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "pad": {"t": 10},
        },
        "xaxis": _AXIS,
        "yaxis": {**_AXIS, "exponentformat": "power"},
        "hovermode": "closest",
        "hoverlabel": {"namelength": -1, "align": "left"},
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
            "font": {"size": 11},
            "traceorder": "normal",
            "itemsizing": "constant",
        },
        "margin": {"l": 60, "r": 16, "t": 48, "b": 50},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": GREY},
        "uirevision": "kept",
        "bargap": 0.15,
    }
)


def figure(title: str, *, x: str = "", y: str = "", **layout: Any) -> go.Figure:
    """Return a figure without data.

    Args:
        title: Trusted text; text from a run must go through ``plain_text`` first.
        x, y: Axis titles, with units.
        layout: Further Plotly layout properties.
    """
    axes = {"xaxis_title_text": x, "yaxis_title_text": y}
    return go.Figure(layout={"template": TEMPLATE, "title_text": title, "uirevision": "kept", **axes, **layout})


def empty(message: str, title: str = "") -> go.Figure:
    """Return a figure that shows a message instead of data."""
    hidden = {"visible": False}
    fig = figure(title, xaxis=hidden, yaxis=hidden, meta={"empty": message[:_MAX_MESSAGE_CHARACTERS]})
    lines = [plain_text(line) for line in textwrap.wrap(message[:_MAX_MESSAGE_CHARACTERS], 64)]
    fig.add_annotation(text="<br>".join(lines), showarrow=False, x=0.5, y=0.5, xref="paper", yref="paper")
    return fig


def plain_text(text: object, max_characters: int = MAX_CHARACTERS) -> str:
    """Escape a name or message of a run so that Plotly shows it literally: no markup, formulas or templates.

    Args:
        max_characters: Longer text is cut in the middle, since names differ at both ends.
    """
    text_shown = _DIRECTIONS.sub("", str(text))
    text_shown = "".join(
        " " if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") else character for character in text_shown
    )
    if len(text_shown) > max_characters:
        tail = (max_characters - 1) // 2
        text_shown = f"{text_shown[: max_characters - 1 - tail]}…{text_shown[len(text_shown) - tail :]}"
    return html.escape(text_shown, quote=False).replace("$", "&#36;").replace("%{", "&#37;{")


def unique_labels(names: Iterable[str], max_characters: int = 44) -> list[str]:
    """Return names as category labels: escaped, shortened and unique; equal labels are numbered."""
    counts: dict[str, int] = {}
    labels = []
    for name in names:
        label = plain_text(name, max_characters)
        counts[label] = counts.get(label, 0) + 1
        labels.append(label if counts[label] == 1 else f"{label} ({counts[label]})")
    return labels


def series_colour(index: int) -> str:
    """Return the colour of a series; colours repeat with another dash."""
    return PALETTE[index % len(PALETTE)]


def series_dash(index: int) -> str:
    """Return the line dash of a series."""
    return DASHES[index // len(PALETTE) % len(DASHES)]


def translucent(hexadecimal: str, opacity: float = 0.2) -> str:
    """Return a palette colour with opacity."""
    red, green, blue = (int(hexadecimal[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"


def add_line(fig: go.Figure, index: int, name: str, x: Any, y: Any, hover: str, **trace: Any) -> None:
    """Add the line of a series in its colour and dash.

    Args:
        index: Index of the series.
        trace: Further properties of the trace; ``line`` is merged.
    """
    line = {"color": series_colour(index), "width": 1.5, "dash": series_dash(index), **trace.pop("line", {})}
    trace = {"mode": "lines", "hovertemplate": hover, "cliponaxis": False, **trace}
    fig.add_trace(go.Scatter(x=x, y=y, name=name, line=line, **trace))


def add_outline(fig: go.Figure, index: int, name: str, edges: Any, heights: Any, hover: str) -> None:
    """Add a histogram as one translucent filled outline, so that several can overlap."""
    x = float32(np.repeat(np.asarray(edges, np.float64), 2))
    y = float32(np.concatenate([[0.0], np.repeat(heights, 2), [0.0]]))
    fill = translucent(series_colour(index), 0.15)
    add_line(fig, index, name, x, y, hover, fill="tozeroy", fillcolor=fill)


def add_heat_map(
    fig: go.Figure, x: Any, y: Any, z: Any, hover: str, *, scale: Any, title: str, bar: Any = None, **trace: Any
) -> None:
    """Add a heat map whose missing cells are gaps.

    Args:
        scale: Colour scale.
        title: Title of the colour bar.
        bar: Further properties of the colour bar.
    """
    bar = {"title": {"text": title, "side": "right"}, "thickness": 12, "outlinewidth": 0, **(bar or {})}
    trace = {"hoverongaps": False, "hovertemplate": f"{hover}<extra></extra>", **trace}
    fig.add_trace(go.Heatmap(x=x, y=y, z=z, colorscale=scale, colorbar=bar, **trace))


def add_bars(fig: go.Figure, name: str, x: Any, y: Any, colour: Any, hover: str, **trace: Any) -> None:
    """Add bars of one colour; ``marker`` is merged."""
    marker = {"color": colour, **trace.pop("marker", {})}
    fig.add_trace(go.Bar(x=x, y=y, name=name or None, marker=marker, hovertemplate=hover, **trace))


def add_band(
    fig: go.Figure, x: npt.NDArray[Any], low: npt.NDArray[Any], high: npt.NDArray[Any], *, index: int, group: str
) -> None:
    """Add a translucent band from minimum to maximum, interrupted where either is not finite.

    Args:
        index: Index of the series it belongs to.
        group: Name of that series in the legend.
    """
    is_finite = np.isfinite(low) & np.isfinite(high)
    segments = [
        indices
        for indices in np.split(np.arange(len(x)), np.flatnonzero(np.diff(is_finite)) + 1)
        if is_finite[indices].any()
    ]
    if not segments:
        return
    around = [np.concatenate([indices, indices[::-1]]) for indices in segments]
    gap = np.array([np.nan])
    xs = np.concatenate([part for indices in around for part in (x[indices].astype(np.float64), gap)][:-1])
    edges = [np.concatenate([high[indices], low[indices][::-1]]) for indices in segments]
    ys = np.concatenate([part for edge in edges for part in (edge, gap)][:-1])
    fig.add_trace(
        go.Scatter(
            x=xs,
            y=float32(ys),
            mode="lines",
            line={"width": 0},
            fill="toself",
            fillcolor=translucent(series_colour(index), 0.18),
            hoverinfo="skip",
            showlegend=False,
            legendgroup=group,
            name=f"{group}: min and max",
        )
    )


def set_legend(fig: go.Figure) -> go.Figure:
    """Show a legend below the axis if there is more than one series, with room for its rows."""
    names = [trace.name or "" for trace in fig.data if trace.showlegend is not False]
    fig.update_layout(showlegend=len(names) > 1)
    if len(names) < 2:
        return fig
    widest = 45 + 6.3 * max(map(len, names))
    columns = max(1, int(_LEGEND_PIXELS // widest))
    rows = min(-(-len(names) // columns), 6)
    below = 32 + 18 * bool(fig.layout.xaxis.title.text) + 19 * rows
    return fig.update_layout(margin={"b": below}, meta={**(fig.layout.meta or {}), "legend_rows": rows})


def set_series(fig: go.Figure, count: int, noun: str = "series", *, max_unified: int = 10) -> go.Figure:
    """Note the series that were not drawn, show the legend, and the values of all series on hover if they are few."""
    note_omitted(fig, count - MAX_SERIES, noun)
    fig.update_layout(hovermode="x unified" if count <= max_unified else "closest")
    return set_legend(fig)


def distinguish(keys: Sequence[Sequence[Any]]) -> list[int]:
    """Return the positions at which keys differ, which distinguish series from each other."""
    return [index for index, values in enumerate(zip(*keys, strict=True)) if len(set(values)) > 1]


def epoch_ms(times_ns: npt.NDArray[np.int64] | Sequence[int]) -> npt.NDArray[np.float64]:
    """Convert ns since the epoch to what Plotly's date axes take: milliseconds since the epoch, UTC."""
    return np.asarray(np.asarray(times_ns, np.int64) / 1e6, np.float64).round(0)


def float32(values: Any) -> npt.NDArray[np.float32]:
    """Convert numbers for drawing to float32; non-finite or too large ones become NaN and have no point."""
    with np.errstate(over="ignore"):
        packed = np.asarray(values, np.float64).astype(np.float32)
    return np.where(np.isfinite(packed), packed, np.float32("nan"))


def set_time_axis(fig: go.Figure) -> go.Figure:
    """Make x a time axis with 24 hours and the zone on hover; the dashboard converts UTC to the viewer's time zone."""
    fig.update_xaxes(type="date", title_text="", hoverformat="%b %-d, %H:%M:%S UTC", tickformatstops=_TIME_TICKS)
    meta = dict(fig.layout.meta or {})
    return fig.update_layout(meta={**meta, "axis": "time"}, margin={"b": 32})


def set_step_axis(fig: go.Figure, title: str = "step") -> go.Figure:
    """Make x an axis of integer steps."""
    ends = [
        end for trace in fig.data if trace.x is not None and len(trace.x) for end in (np.min(trace.x), np.max(trace.x))
    ]
    spacing = {"dtick": 1} if ends and max(ends) - min(ends) <= _FEW_STEPS else {}
    fig.update_xaxes(title_text=title, tickformat=",d", **spacing)
    meta = dict(fig.layout.meta or {})
    return fig.update_layout(meta={**meta, "axis": "step"})


def note_omitted(fig: go.Figure, count: int, noun: str) -> go.Figure:
    """Note how many items were not drawn."""
    return add_note(fig, f"and {count:,} more {noun}") if count > 0 else fig


def add_note(fig: go.Figure, text: str, *, colour: str | None = None) -> go.Figure:
    """Add a note above the right end of a chart."""
    return fig.add_annotation(
        text=text,
        showarrow=False,
        x=1,
        y=1,
        xref="paper",
        yref="paper",
        xanchor="right",
        yanchor="bottom",
        font={"size": 11, **({"color": colour} if colour else {})},
    )


def phase_colour(phase: str) -> str:
    """Return the colour of a phase of a job or step."""
    return PHASE_COLOURS.get(phase, GREY)


PHASE_ORDER: Final = (*PHASES, "watching", "other", "eval", "predict")
"""Order in which phases are stacked and listed."""
