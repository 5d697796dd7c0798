"""Charts of step times: over steps, as distributions, and by phase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.steps import PARTS
from leadline.figures import theme
from leadline.figures.units import Unit, duration_unit
from leadline.figures.usage import add_histogram_outline
from leadline.reader.window import natural_sort_key

_LONG: Final = 3.0
"""Steps longer than this many medians are marked."""
_MAX_MARKS: Final = 200
_LOG_SCALE_RATIO: Final = 10.0
"""The axis is logarithmic if the longest step exceeds this many medians."""
_HATCH_PATTERN: Final = {"fillmode": "overlay", "fgcolor": "#ffffff", "fgopacity": 0.5, "size": 6}
_NO_STEPS: Final = "no steps were timed"


def durations(table: pa.Table, *, title: str = "Step time", missing: str = _NO_STEPS) -> go.Figure:
    """Draw step times: a line for each worker and mode, a band where steps were aggregated, long steps marked.

    Args:
        table: From ``Digest.steps``.
    """
    if not table.num_rows:
        return theme.empty(missing, title)
    longest = table["longest_ns"].to_numpy() / 1e9
    unit = duration_unit(float(np.median(longest)))
    fig = theme.figure(title, y=unit.axis_title("time"))
    groups = list(_groups(table))
    for index, (name, rows) in enumerate(groups[: theme.MAX_SERIES]):
        _add_durations(fig, index, name, rows, unit, has_band=len(groups) <= theme.MAX_BANDS)
    theme.note_omitted(fig, len(groups) - theme.MAX_SERIES, "workers and modes")
    median_mean = float(np.median(table["duration_ns"].to_numpy() / np.maximum(table["count"].to_numpy(), 1))) / 1e9
    if longest.max() > _LOG_SCALE_RATIO * median_mean > 0:
        fig.update_yaxes(type="log", nticks=6, title_text=f"time ({unit.name}), log scale")
    else:
        fig.update_yaxes(rangemode="tozero")
    return theme.set_legend(theme.set_step_axis(fig))


def histogram(
    distributions: Mapping[str, Mapping[str, Any]], *, title: str = "Step time distribution", missing: str = _NO_STEPS
) -> go.Figure:
    """Draw the distribution of step times: an outline for each worker and mode, in percent of its steps.

    Args:
        distributions: From ``Digest.step_durations``: ``edges`` in seconds, ``counts`` and percentiles by worker/mode.
    """
    items = sorted(
        ((name, distribution) for name, distribution in distributions.items() if sum(distribution["counts"])),
        key=lambda item: natural_sort_key(item[0]),
    )
    if not items:
        return theme.empty(missing, title)
    unit = duration_unit(max(distribution["p50"] for _, distribution in items))
    fig = theme.figure(title, x=unit.axis_title("step time"), y="share of steps (%)")
    for index, (group, distribution) in enumerate(items[: theme.MAX_SERIES]):
        counts = np.asarray(distribution["counts"], np.float64)
        edges = np.asarray(distribution["edges"], np.float64) * unit.factor
        median, p99 = (distribution[name] * unit.factor for name in ("p50", "p99"))
        label = f"{group}: median {median:.3g}, p99 {p99:.3g} {unit.name}"
        add_histogram_outline(fig, edges, 100.0 * counts / counts.sum(), name=theme.plain_text(label), index=index)
    theme.note_omitted(fig, len(items) - theme.MAX_SERIES, "workers and modes")
    if all(_has_growing_bins(distribution["edges"]) for _, distribution in items):
        fig.update_xaxes(type="log", nticks=8, title_text=f"step time ({unit.name}), log scale")
    return theme.set_legend(fig).update_layout(showlegend=True)


def timeline(table: pa.Table, *, last: int = 30, title: str = "", missing: str = _NO_STEPS) -> go.Figure:
    """Draw the time of each phase of the last steps, stacked.

    Args:
        table: From ``Digest.steps``, of one worker; of several, the first is drawn.
        last: Number of steps.
    """
    if not table.num_rows:
        return theme.empty(missing, title or "Step phases")
    workers = sorted(pc.unique(table["worker"]).to_pylist(), key=natural_sort_key)
    rows = table.filter(pc.equal(table["worker"], workers[0])).sort_by("step")
    rows = rows.slice(max(0, rows.num_rows - last))
    mean = rows["duration_ns"].to_numpy() / np.maximum(rows["count"].to_numpy(), 1) / 1e9
    unit = duration_unit(float(np.median(mean)))
    first, end = rows["step"][0].as_py(), rows["end_step"][-1].as_py()
    fig = theme.figure(title or f"Phases of steps {first:,} to {end - 1:,}", y=unit.axis_title("step time"))
    _add_phases(fig, rows, unit)
    theme.note_omitted(fig, len(workers) - 1, "workers")
    fig.update_layout(barmode="stack", bargap=0.1, hovermode="x unified")
    return theme.set_legend(theme.set_step_axis(fig))


def _has_growing_bins(edges: Sequence[float]) -> bool:
    """Return whether bins grow by equal factors instead of being equally wide."""
    widths = np.diff(np.asarray(edges, np.float64))
    return edges[0] > 0 and bool(widths[-1] > 2 * widths[0])


def _add_phases(fig: go.Figure, rows: pa.Table, unit: Unit) -> None:
    """Add a bar for each step and phase; steps of modes other than training are hatched."""
    steps, counts = rows["step"].to_numpy(), np.maximum(rows["count"].to_numpy(), 1)
    shapes = ["" if mode == "train" else "/" for mode in rows["mode"].to_pylist()]
    pattern = {"shape": shapes, **_HATCH_PATTERN} if any(shapes) else {}
    for part in PARTS:
        times = rows[f"{part}_ns"].to_numpy() / counts / 1e9 * unit.factor
        if not bool(np.any(times > 0)):
            continue
        colour = theme.phase_colour(part)
        fig.add_trace(
            go.Bar(
                x=steps,
                y=theme.float32(times),
                name=part,
                hovertemplate=f"%{{y:.3g}} {unit.name}",
                marker={"color": colour, "line": {"width": 0}, "pattern": pattern},
            )
        )


def _add_durations(
    fig: go.Figure, index: int, name: str, rows: Mapping[str, Any], unit: Unit, *, has_band: bool
) -> None:
    colour, label = theme.series_colour(index), theme.plain_text(name)
    mean = rows["duration_ns"] / np.maximum(rows["count"], 1) / 1e9 * unit.factor
    shortest, longest = (rows[key] / 1e9 * unit.factor for key in ("shortest_ns", "longest_ns"))
    is_long = longest > _LONG * float(np.median(mean))
    if has_band and bool(np.any(rows["count"] > 1)):
        top = np.where(is_long, mean, longest)  # a single long step would hide all others
        theme.add_band(fig, rows["step"], shortest, top, index=index, group=label)
    fig.add_trace(
        go.Scatter(
            x=rows["step"],
            y=theme.float32(mean),
            name=label,
            legendgroup=label,
            mode="lines" if len(mean) > 1 else "markers",
            line={"color": colour, "width": 1.5, "dash": theme.series_dash(index)},
            hovertemplate=f"step %{{x:,}}: %{{y:.3g}} {unit.name}",
        )
    )
    _mark_long(fig, rows, np.flatnonzero(is_long), longest, label, colour, unit)


def _mark_long(
    fig: go.Figure, rows: Mapping[str, Any], indices: Any, longest: Any, name: str, colour: str, unit: Unit
) -> None:
    """Mark the longest of the long steps."""
    if not len(indices):
        return
    indices = np.sort(indices[np.argsort(longest[indices])[::-1][:_MAX_MARKS]])
    fig.add_trace(
        go.Scatter(
            x=rows["longest_step"][indices],
            y=theme.float32(longest[indices]),
            name=f"over {_LONG:.0f} × median",
            mode="markers",
            marker={"color": colour, "size": 7, "symbol": "diamond-open"},
            legendgroup="long",
            showlegend=not any(trace.legendgroup == "long" for trace in fig.data),
            hovertemplate=f"step %{{x:,}}: %{{y:.3g}} {unit.name}",
        )
    )


def _groups(table: pa.Table) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each worker and mode with its columns, ordered by step."""
    names = pc.binary_join_element_wise(table["worker"], table["mode"], "/").to_numpy(zero_copy_only=False)
    columns = {
        name: table[name].to_numpy()
        for name in ("step", "duration_ns", "count", "longest_ns", "shortest_ns", "longest_step")
    }
    for name in sorted(set(names.tolist()), key=natural_sort_key):
        rows = np.flatnonzero(names == name)
        rows = rows[np.argsort(columns["step"][rows], kind="stable")]
        yield name, {key: column[rows] for key, column in columns.items()}
