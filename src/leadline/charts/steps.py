"""Charts of step times: over steps, as distributions, by phase and by rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.ranks import Ranks
from leadline.charts import theme
from leadline.charts.units import Unit, duration_unit
from leadline.reader.window import natural_sort_key
from leadline.records.names import PARTS

_LONG: Final = 3.0
"""Steps longer than this many medians are marked."""
_MAX_MARKS: Final = 200
_LOG_SCALE_RATIO: Final = 10.0
"""The axis is logarithmic if the longest step exceeds this many medians."""
_HATCH_PATTERN: Final = {"fillmode": "overlay", "fgcolor": "#ffffff", "fgopacity": 0.5, "size": 6}
_NO_STEPS: Final = "no steps were timed"
_ONE_RANK: Final = "single rank: nothing to compare"


def durations(table: pa.Table, *, title: str = "Step time") -> go.Figure:
    """Draw step times: a line for each worker and mode, a band where steps were aggregated, long steps marked.

    Args:
        table: From ``Digest.steps``.
    """
    if not table.num_rows:
        return theme.empty(_NO_STEPS, title)
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


def histogram(distributions: Mapping[str, Mapping[str, Any]]) -> go.Figure:
    """Draw the distribution of step times: an outline for each worker and mode, in percent of its steps.

    Args:
        distributions: From ``Digest.step_durations``: ``edges`` in seconds, ``counts`` and percentiles by worker/mode.
    """
    items = sorted(
        ((name, distribution) for name, distribution in distributions.items() if sum(distribution["counts"])),
        key=lambda item: natural_sort_key(item[0]),
    )
    if not items:
        return theme.empty(_NO_STEPS, "Step time distribution")
    unit = duration_unit(max(distribution["p50"] for _, distribution in items))
    fig = theme.figure("Step time distribution", x=unit.axis_title("step time"), y="share of steps (%)")
    for index, (group, distribution) in enumerate(items[: theme.MAX_SERIES]):
        counts = np.asarray(distribution["counts"], np.float64)
        edges = np.asarray(distribution["edges"], np.float64) * unit.factor
        median, p99 = (distribution[name] * unit.factor for name in ("p50", "p99"))
        label = f"{group}: median {median:.3g}, p99 {p99:.3g} {unit.name}"
        theme.add_outline(fig, index, theme.plain_text(label), edges, 100.0 * counts / counts.sum())
    theme.note_omitted(fig, len(items) - theme.MAX_SERIES, "workers and modes")
    if all(_has_growing_bins(distribution["edges"]) for _, distribution in items):
        fig.update_xaxes(type="log", nticks=8, title_text=f"step time ({unit.name}), log scale")
    return theme.set_legend(fig).update_layout(showlegend=True)


def timeline(table: pa.Table, *, last: int = 30) -> go.Figure:
    """Draw the time of each phase of the last steps, stacked.

    Args:
        table: From ``Digest.steps``, of one worker; of several, the first is drawn.
        last: Number of train steps.
    """
    if not table.num_rows:
        return theme.empty(_NO_STEPS, "Step phases")
    workers = sorted(pc.unique(table["worker"]).to_pylist(), key=natural_sort_key)
    rows = table.filter(pc.equal(table["worker"], workers[0])).sort_by("step")
    rows = rows.filter(pc.greater(rows["end_step"], pc.max(rows["end_step"]).as_py() - last))
    mean = rows["duration_ns"].to_numpy() / np.maximum(rows["count"].to_numpy(), 1) / 1e9
    unit = duration_unit(float(np.median(mean)))
    first, end = pc.min(rows["step"]).as_py(), pc.max(rows["end_step"]).as_py()
    fig = theme.figure(f"Phases of steps {first:,} to {end - 1:,}", y=unit.axis_title("step time"))
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
        marker = {"line": {"width": 0}, "pattern": pattern}
        hover = f"%{{y:.3g}} {unit.name}"
        theme.add_bars(fig, part, steps, theme.float32(times), theme.phase_colour(part), hover, marker=marker)


def _add_durations(
    fig: go.Figure, index: int, name: str, rows: Mapping[str, Any], unit: Unit, *, has_band: bool
) -> None:
    label = theme.plain_text(name)
    mean = rows["duration_ns"] / np.maximum(rows["count"], 1) / 1e9 * unit.factor
    shortest, longest = (rows[key] / 1e9 * unit.factor for key in ("shortest_ns", "longest_ns"))
    is_long = longest > _LONG * float(np.median(mean))
    if has_band and bool(np.any(rows["count"] > 1)):
        top = np.where(is_long, mean, longest)  # a single long step would hide all others
        theme.add_band(fig, rows["step"], shortest, top, index=index, group=label)
    mode, hover = "lines" if len(mean) > 1 else "markers", f"step %{{x:,}}: %{{y:.3g}} {unit.name}"
    theme.add_line(fig, index, label, rows["step"], theme.float32(mean), hover, legendgroup=label, mode=mode)
    _mark_long(fig, rows, np.flatnonzero(is_long), longest, theme.series_colour(index), unit)


def _mark_long(fig: go.Figure, rows: Mapping[str, Any], indices: Any, longest: Any, colour: str, unit: Unit) -> None:
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


def rank_times(ranks: Ranks | None) -> go.Figure:
    """Draw the median step time of each rank; a straggler is coloured and named."""
    if ranks is None or not ranks.by_rank:
        return theme.empty(_ONE_RANK, "Step time by rank")
    names, unit = sorted(ranks.by_rank), _rank_unit(ranks)
    seconds = np.array([ranks.by_rank[rank]["step"] / 1e3 for rank in names])
    slowest = ranks.straggler.rank if ranks.straggler else None
    fig = theme.figure("Step time by rank", x="rank", y=unit.axis_title("median step time"))
    colours = [theme.PALETTE[3] if rank == slowest else theme.PALETTE[0] for rank in names]
    hover = f"rank %{{x}}: %{{y:.4g}} {unit.name}<extra></extra>"
    theme.add_bars(fig, "", [str(rank) for rank in names], theme.float32(seconds * unit.factor), colours, hover)
    fig.update_xaxes(type="category")
    return _note_straggler(fig, ranks)


def rank_phases(ranks: Ranks | None) -> go.Figure:
    """Draw the median time of each phase of a step, stacked, a bar for each rank."""
    if ranks is None or not ranks.by_rank:
        return theme.empty(_ONE_RANK, "Step phases by rank")
    names, unit = sorted(ranks.by_rank), _rank_unit(ranks)
    fig = theme.figure("Step phases by rank", x="rank", y=unit.axis_title("median time"))
    fig.update_layout(barmode="stack", hovermode="x unified")
    for part in PARTS:
        times = np.array([ranks.by_rank[rank].get(part, 0.0) / 1e3 for rank in names]) * unit.factor
        if times.any():
            x, hover = [str(rank) for rank in names], f"%{{y:.4g}} {unit.name}"
            theme.add_bars(fig, part, x, theme.float32(times), theme.phase_colour(part), hover)
    fig.update_xaxes(type="category")
    return _note_straggler(theme.set_legend(fig), ranks)


def _rank_unit(ranks: Ranks) -> Unit:
    return duration_unit(max(times["step"] for times in ranks.by_rank.values()) / 1e3)


def _note_straggler(fig: go.Figure, ranks: Ranks) -> go.Figure:
    """Note the straggler, or that there is none."""
    straggler = ranks.straggler
    text = f"no straggler in {ranks.steps:,} steps"
    if straggler is not None:
        text = f"rank {straggler.rank} is slowest: {straggler.lost_ms:.3g} ms per step longer in {straggler.phase}"
    return theme.add_note(fig, text)
