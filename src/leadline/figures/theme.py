"""How every figure looks: palette, template, axes, safe text, and what is said where there are no data."""

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

PALETTE: Final = ("#3677d9", "#d97e16", "#29a67c", "#e53939", "#bf1386", "#1386bf", "#853df2")
"""Each at least 3:1 against white and against near black; told apart also without red or green cones (CIELAB distance
of 18 and more, simulated after Machado, Oliveira and Fernandes 2009)."""
GREY: Final = "#8a8f98"
"""What is left over, and what is not to be looked at first."""
TEXT: Final = "#7b8490"
"""Readable on light and dark; a page replaces it by its own."""
EDGE: Final = "rgba(128,128,128,0.6)"
GRID: Final = "rgba(128,128,128,0.22)"
DASHES: Final = ("solid", "dash", "dot", "dashdot")
PHASE_COLOURS: Final = {
    "data": PALETTE[1],
    "copy": PALETTE[4],
    "forward": PALETTE[0],
    "backward": PALETTE[6],
    "optimizer": PALETTE[2],
    "collective": PALETTE[3],
    "checkpoint": PALETTE[5],
    "watching": "#a8adb5",
    "other": GREY,
    "eval": PALETTE[5],
    "predict": PALETTE[4],
    "train": PALETTE[0],
    "initialization": PALETTE[1],
    "training_loop": PALETTE[0],
    "finalization": PALETTE[2],
}
"""One colour for one part of a job or a step, in every chart."""
USED: Final = "Cividis"
"""The scale of how much something is used, 0–100 %."""
MAGNITUDES: Final = "Viridis"
"""The scale of magnitudes."""
MOST_SERIES: Final = 20
"""So many lines are drawn; the others are counted."""
MOST_CHARACTERS: Final = 80
_MOST_WORDS: Final = 250
MOST_BANDS: Final = 4
"""Of more series the bands hide each other."""
_LEGEND_PIXELS: Final = 540
_DIRECTIONS: Final = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Marks that turn the direction of text, and with it what a name seems to be."""

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
        "yaxis": _AXIS,
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
    """A figure without data.

    Args:
        title: Of our own words; what comes from a run goes through ``plain`` first.
        x, y: Titles of the axes, with their units.
        layout: More of Plotly's layout.
    """
    axes = {"xaxis_title_text": x, "yaxis_title_text": y}
    return go.Figure(layout={"template": TEMPLATE, "title_text": title, "uirevision": "kept", **axes, **layout})


def empty(words: str, title: str = "") -> go.Figure:
    """A figure that says in words why there is nothing to see."""
    hidden = {"visible": False}
    shown = figure(title, xaxis=hidden, yaxis=hidden, meta={"empty": words[:_MOST_WORDS]})
    lines = [plain(each) for each in textwrap.wrap(words[:_MOST_WORDS], 64)]
    shown.add_annotation(text="<br>".join(lines), showarrow=False, x=0.5, y=0.5, xref="paper", yref="paper")
    return shown


def plain(text: object, most: int = MOST_CHARACTERS) -> str:
    """A name or message of a run as text that Plotly shows as it is: no markup, no formulas, no templates.

    Args:
        most: Longer ones are cut in the middle, since names differ at both ends.
    """
    kept = _DIRECTIONS.sub("", str(text))
    kept = "".join(" " if unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp") else each for each in kept)
    if len(kept) > most:
        tail = (most - 1) // 2
        kept = f"{kept[: most - 1 - tail]}…{kept[len(kept) - tail :]}"
    return html.escape(kept, quote=False).replace("$", "&#36;").replace("%{", "&#37;{")


def labels(names: Iterable[str], most: int = 44) -> list[str]:
    """Names as the rows of a chart: plain, cut, and each once; those that look alike are numbered."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        label = plain(name, most)
        seen[label] = seen.get(label, 0) + 1
        found.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return found


def colour(place: int) -> str:
    """The colour of the series at a place; they come again, with another dash."""
    return PALETTE[place % len(PALETTE)]


def dash(place: int) -> str:
    """The dash of the series at a place."""
    return DASHES[place // len(PALETTE) % len(DASHES)]


def faint(hexadecimal: str, opacity: float = 0.2) -> str:
    """A colour of the palette, to see through."""
    red, green, blue = (int(hexadecimal[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"


def add_band(
    shown: go.Figure, x: npt.NDArray[Any], low: npt.NDArray[Any], high: npt.NDArray[Any], *, place: int, group: str
) -> None:
    """Add a see-through band from the least to the most; it ends where either is not finite, and begins anew.

    Args:
        place: Of the series that it belongs to.
        group: The name of that in the legend.
    """
    is_known = np.isfinite(low) & np.isfinite(high)
    runs = [each for each in np.split(np.arange(len(x)), np.flatnonzero(np.diff(is_known)) + 1) if is_known[each].any()]
    if not runs:
        return
    around = [np.concatenate([each, each[::-1]]) for each in runs]
    gap = np.array([np.nan])
    xs = np.concatenate([part for each in around for part in (x[each].astype(np.float64), gap)][:-1])
    edges = [np.concatenate([high[each], low[each][::-1]]) for each in runs]
    ys = np.concatenate([part for each in edges for part in (each, gap)][:-1])
    shown.add_trace(
        go.Scatter(
            x=xs,
            y=numbers(ys),
            mode="lines",
            line={"width": 0},
            fill="toself",
            fillcolor=faint(colour(place), 0.18),
            hoverinfo="skip",
            showlegend=False,
            legendgroup=group,
            name=f"{group}: least and most",
        )
    )


def set_legend(shown: go.Figure) -> go.Figure:
    """Show a legend below the axis where there is more than one series, with room for its rows."""
    names = [each.name or "" for each in shown.data if each.showlegend is not False]
    shown.update_layout(showlegend=len(names) > 1)
    if len(names) < 2:
        return shown
    widest = 45 + 6.3 * max(map(len, names))
    columns = max(1, int(_LEGEND_PIXELS // widest))
    rows = min(-(-len(names) // columns), 6)
    return shown.update_layout(margin={"b": 58 + 19 * rows}, meta={**(shown.layout.meta or {}), "legend_rows": rows})


def moments(times_ns: npt.NDArray[np.int64] | Sequence[int]) -> npt.NDArray[np.float64]:
    """Times in ns since the epoch as Plotly's date axes take them: milliseconds since the epoch, UTC."""
    return np.asarray(np.asarray(times_ns, np.int64) / 1e6, np.float64).round(0)


def numbers(values: Any) -> npt.NDArray[np.float32]:
    """Numbers to draw, packed to four bytes; what is not finite, or too large for that, has no point."""
    with np.errstate(over="ignore"):
        packed = np.asarray(values, np.float64).astype(np.float32)
    return np.where(np.isfinite(packed), packed, np.float32("nan"))


def set_time_axis(shown: go.Figure) -> go.Figure:
    """Make x a time axis; the page that shows it turns UTC into the viewer's own time."""
    shown.update_xaxes(type="date", title_text="time (UTC)")
    meta = dict(shown.layout.meta or {})
    return shown.update_layout(meta={**meta, "axis": "time"})


def set_step_axis(shown: go.Figure, title: str = "step") -> go.Figure:
    """Make x an axis of whole steps."""
    shown.update_xaxes(title_text=title, tickformat=",d")
    meta = dict(shown.layout.meta or {})
    return shown.update_layout(meta={**meta, "axis": "step"})


def left_out(shown: go.Figure, count: int, what: str) -> go.Figure:
    """Say that so many more are there than are drawn."""
    return add_note(shown, f"and {count:,} more {what}") if count > 0 else shown


def add_note(shown: go.Figure, words: str, *, hue: str | None = None) -> go.Figure:
    """Say something above the right end of a chart."""
    return shown.add_annotation(
        text=words,
        showarrow=False,
        x=1,
        y=1,
        xref="paper",
        yref="paper",
        xanchor="right",
        yanchor="bottom",
        font={"size": 11, **({"color": hue} if hue else {})},
    )


def phase_colour(phase: str) -> str:
    """The colour of a part of a job or a step."""
    return PHASE_COLOURS.get(phase, GREY)


PHASE_ORDER: Final = (*PHASES, "watching", "other", "eval", "predict")
"""The order in which phases are stacked and told."""
