"""Steps: how long each took, how lengths are spread, and what they were made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.steps import PARTS
from leadline.figures import theme
from leadline.figures.units import Unit, seconds_unit
from leadline.figures.usage import add_outline
from leadline.reader.window import natural_sort_key

_LONG: Final = 3.0
"""Steps of so many medians are marked."""
_MOST_MARKS: Final = 200
_WIDE: Final = 10.0
"""Where the largest is so many times the usual or the smallest, an axis is logarithmic."""
_HATCHED: Final = {"fillmode": "overlay", "fgcolor": "#ffffff", "fgopacity": 0.5, "size": 6}
_NONE: Final = "no steps were timed"


def durations(table: pa.Table, *, title: str = "Time of each step", missing: str = _NONE) -> go.Figure:
    """How long steps took: a line for each worker and mode, a band where steps were put together, long ones marked.

    Args:
        table: As ``Digest.steps`` gives it.
    """
    if not table.num_rows:
        return theme.empty(missing, title)
    longest = table["longest_ns"].to_numpy() / 1e9
    unit = seconds_unit(float(np.median(longest)))
    shown = theme.figure(title, y=unit.titled("time"))
    groups = list(_groups(table))
    for place, (name, rows) in enumerate(groups[: theme.MOST_SERIES]):
        _add_durations(shown, place, name, rows, unit, has_band=len(groups) <= theme.MOST_BANDS)
    theme.left_out(shown, len(groups) - theme.MOST_SERIES, "workers and modes")
    usual = float(np.median(table["duration_ns"].to_numpy() / np.maximum(table["count"].to_numpy(), 1))) / 1e9
    if longest.max() > _WIDE * usual > 0:
        shown.update_yaxes(type="log", nticks=6, title_text=f"time ({unit.name}), log scale")
    else:
        shown.update_yaxes(rangemode="tozero")
    return theme.set_legend(theme.set_step_axis(shown))


def histogram(
    spread: Mapping[str, Mapping[str, Any]], *, title: str = "How long steps took", missing: str = _NONE
) -> go.Figure:
    """How often a step took how long: a curve of steps for each worker and mode, in per cent of its steps.

    Args:
        spread: As ``Digest.step_durations`` gives it: ``edges`` in seconds, ``counts`` and percentiles by worker/mode.
    """
    found = sorted(
        ((name, each) for name, each in spread.items() if sum(each["counts"])),
        key=lambda each: natural_sort_key(each[0]),
    )
    if not found:
        return theme.empty(missing, title)
    unit = seconds_unit(max(each["p50"] for _, each in found))
    shown = theme.figure(title, x=unit.titled("time of a step"), y="share of the steps (%)")
    for place, (name, each) in enumerate(found[: theme.MOST_SERIES]):
        counts = np.asarray(each["counts"], np.float64)
        edges = np.asarray(each["edges"], np.float64) * unit.factor
        spoken = f"{name}: median {each['p50'] * unit.factor:.3g}, p99 {each['p99'] * unit.factor:.3g} {unit.name}"
        add_outline(shown, edges, 100.0 * counts / counts.sum(), name=theme.plain(spoken), place=place)
    theme.left_out(shown, len(found) - theme.MOST_SERIES, "workers and modes")
    if all(_has_growing_bins(each["edges"]) for _, each in found):
        shown.update_xaxes(type="log", nticks=8, title_text=f"time of a step ({unit.name}), log scale")
    return theme.set_legend(shown).update_layout(showlegend=True)


def timeline(table: pa.Table, *, last: int = 30, title: str = "", missing: str = "no steps were timed") -> go.Figure:
    """What each of the last steps was made of: the time of its phases on top of each other.

    Args:
        table: As ``Digest.steps`` gives it, of one worker; of several the first is drawn.
        last: So many steps.
    """
    if not table.num_rows:
        return theme.empty(missing, title or "Steps, phase by phase")
    workers = sorted(pc.unique(table["worker"]).to_pylist(), key=natural_sort_key)
    rows = table.filter(pc.equal(table["worker"], workers[0])).sort_by("step")
    rows = rows.slice(max(0, rows.num_rows - last))
    mean = rows["duration_ns"].to_numpy() / np.maximum(rows["count"].to_numpy(), 1) / 1e9
    unit = seconds_unit(float(np.median(mean)))
    first, end = rows["step"][0].as_py(), rows["end_step"][-1].as_py()
    shown = theme.figure(title or f"Steps {first:,} to {end - 1:,}, phase by phase", y=unit.titled("time of a step"))
    _add_phases(shown, rows, unit)
    theme.left_out(shown, len(workers) - 1, "workers")
    shown.update_layout(barmode="stack", bargap=0.1, hovermode="x unified")
    return theme.set_legend(theme.set_step_axis(shown))


def _has_growing_bins(edges: Sequence[float]) -> bool:
    """Whether bins are by equal factors instead of equally wide."""
    widths = np.diff(np.asarray(edges, np.float64))
    return edges[0] > 0 and bool(widths[-1] > 2 * widths[0])


def _add_phases(shown: go.Figure, rows: pa.Table, unit: Unit) -> None:
    """A bar a step and phase; steps of another mode than training are shaded."""
    steps, counts = rows["step"].to_numpy(), np.maximum(rows["count"].to_numpy(), 1)
    shapes = ["" if mode == "train" else "/" for mode in rows["mode"].to_pylist()]
    pattern = {"shape": shapes, **_HATCHED} if any(shapes) else {}
    for part in PARTS:
        taken = rows[f"{part}_ns"].to_numpy() / counts / 1e9 * unit.factor
        if not bool(np.any(taken > 0)):
            continue
        hue = theme.phase_colour(part)
        shown.add_trace(
            go.Bar(
                x=steps,
                y=theme.numbers(taken),
                name=part,
                hovertemplate=f"%{{y:.3g}} {unit.name}",
                marker={"color": hue, "line": {"width": 0}, "pattern": pattern},
            )
        )


def _add_durations(
    shown: go.Figure, place: int, name: str, rows: Mapping[str, Any], unit: Unit, *, has_band: bool
) -> None:
    hue, spoken = theme.colour(place), theme.plain(name)
    mean = rows["duration_ns"] / np.maximum(rows["count"], 1) / 1e9 * unit.factor
    low, high = (rows[key] / 1e9 * unit.factor for key in ("shortest_ns", "longest_ns"))
    is_long = high > _LONG * float(np.median(mean))
    if has_band and bool(np.any(rows["count"] > 1)):
        top = np.where(is_long, mean, high)  # else a single long step hides all the others
        theme.add_band(shown, rows["step"], low, top, place=place, group=spoken)
    shown.add_trace(
        go.Scatter(
            x=rows["step"],
            y=theme.numbers(mean),
            name=spoken,
            legendgroup=spoken,
            mode="lines" if len(mean) > 1 else "markers",
            line={"color": hue, "width": 1.5, "dash": theme.dash(place)},
            hovertemplate=f"step %{{x:,}}: %{{y:.3g}} {unit.name}",
        )
    )
    _add_long(shown, rows, np.flatnonzero(is_long), high, spoken, hue, unit)


def _add_long(shown: go.Figure, rows: Mapping[str, Any], long: Any, high: Any, name: str, hue: str, unit: Unit) -> None:
    """Mark the longest of the long steps."""
    if not len(long):
        return
    long = np.sort(long[np.argsort(high[long])[::-1][:_MOST_MARKS]])
    shown.add_trace(
        go.Scatter(
            x=rows["longest_step"][long],
            y=theme.numbers(high[long]),
            name=f"over {_LONG:.0f} medians",
            mode="markers",
            marker={"color": hue, "size": 7, "symbol": "diamond-open"},
            legendgroup="long",
            showlegend=not any(each.legendgroup == "long" for each in shown.data),
            hovertemplate=f"step %{{x:,}}: %{{y:.3g}} {unit.name}",
        )
    )


def _groups(table: pa.Table) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each worker and mode with its columns, by step."""
    names = pc.binary_join_element_wise(table["worker"], table["mode"], "/").to_numpy(zero_copy_only=False)
    columns = {
        name: table[name].to_numpy()
        for name in ("step", "duration_ns", "count", "longest_ns", "shortest_ns", "longest_step")
    }
    for name in sorted(set(names.tolist()), key=natural_sort_key):
        rows = np.flatnonzero(names == name)
        rows = rows[np.argsort(columns["step"][rows], kind="stable")]
        yield name, {key: column[rows] for key, column in columns.items()}
