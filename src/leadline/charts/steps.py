"""Charts of step times: over steps, as distributions, by phase and by rank."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.ranks import Ranks
from leadline.charts import theme
from leadline.charts.value_axis import SECONDS, SECONDS_ON_HOVER, line_mode, set_scale, with_gaps
from leadline.reader.window import natural_sort_key
from leadline.records.formatting import counted, latency, listed, phase_label, worker_labels
from leadline.records.names import PARTS

_LONG: Final = 3.0
"""Steps longer than this many medians are marked."""
_MAX_MARKS: Final = 200
_HATCH_PATTERN: Final = {"fillmode": "overlay", "fgcolor": "#ffffff", "fgopacity": 0.5, "size": 6}
_STEP_ON_HOVER: Final = f"step %{{x:,}}: {SECONDS_ON_HOVER}"
_HEIGHT: Final = 320
_FEW_TICKS: Final = 50.0
"""Up to this ratio an axis has ticks at 2 and 5, too, since powers of ten alone would be one or two."""
_NO_STEPS: Final = "no steps were timed"
_ONE_RANK: Final = "single rank: nothing to compare"


def durations(table: pa.Table, *, title: str = "Step time", is_log: bool | None = None) -> go.Figure:
    """Draw step times: a line for each worker, a band where steps were aggregated, long steps marked.

    Args:
        table: From ``Digest.steps``.
        is_log: None: logarithmic if step times differ widely.
    """
    if not table.num_rows:
        return theme.empty(_NO_STEPS, title)
    fig = theme.figure(title)
    groups = list(_groups(table))
    labels = _labels([name for name, _ in groups])
    for index, (name, rows) in enumerate(groups[: theme.MAX_SERIES]):
        has_band = len(groups) <= theme.MAX_BANDS
        _add_durations(fig, index, labels[name], rows, is_line=name.endswith("/train"), has_band=has_band)
    theme.note_omitted(fig, len(groups) - theme.MAX_SERIES, "workers and modes")
    if not set_scale(fig, [trace.y for trace in fig.data if trace.hoverinfo != "skip"], is_log=is_log):
        fig.update_yaxes(rangemode="tozero")
    fig.update_yaxes(SECONDS)
    return theme.set_legend(theme.set_step_axis(fig)).update_layout(showlegend=True)


def histogram(distributions: Mapping[str, Mapping[str, Any]]) -> go.Figure:
    """Draw the distribution of step times: an outline for each worker and mode, in percent of its steps.

    Args:
        distributions: From ``Digest.step_durations``: ``edges`` in seconds, ``counts`` and percentiles by worker/mode.
    """
    items = sorted(
        ((name, distribution) for name, distribution in distributions.items() if sum(distribution["counts"])),
        key=lambda item: (not item[0].endswith("/train"), natural_sort_key(item[0])),
    )
    if not items:
        return theme.empty(_NO_STEPS, "Step time distribution")
    fig = theme.figure("Step time distribution", y="share of steps (%)", height=_HEIGHT)
    labels = _labels([name for name, _ in items])
    for index, (group, distribution) in enumerate(items[: theme.MAX_SERIES]):
        counts = np.asarray(distribution["counts"], np.float64)
        edges = np.asarray(distribution["edges"], np.float64)
        label = f"{labels[group]}: median {latency(distribution['p50'])}, p99 {latency(distribution['p99'])}"
        shares = 100.0 * counts / counts.sum()
        theme.add_outline(fig, index, theme.plain_text(label, 120), edges, shares, "%{x:.3s}s: %{y:.3~g} %")
    theme.note_omitted(fig, len(items) - theme.MAX_SERIES, "workers and modes")
    limits = [distribution["edges"][end] for _, distribution in items for end in (0, -1)]
    if min(limits) > 0 and any(_has_growing_bins(distribution["edges"]) for _, distribution in items):
        ticks = _log_ticks(min(limits), max(limits))
        fig.update_xaxes(type="log", tickvals=ticks, ticktext=[latency(tick) for tick in ticks])
    else:
        fig.update_xaxes(SECONDS)
    return theme.set_legend(fig).update_layout(showlegend=True)


def _log_ticks(low: float, high: float) -> list[float]:
    """Return the powers of ten between two positive numbers; if they are few, also two and five times those."""
    digits = (1,) if high > _FEW_TICKS * low else (1, 2, 5)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [digit * 10.0**exponent for exponent in exponents for digit in digits]
    return [tick for tick in ticks if low <= tick <= high]


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
    first, end = pc.min(rows["step"]).as_py(), pc.max(rows["end_step"]).as_py()
    fig = theme.figure(f"Phases of steps {first:,} to {end - 1:,}")
    _add_phases(fig, rows)
    fig.update_yaxes(SECONDS)
    other_modes = sorted({mode for mode in rows["mode"].to_pylist() if mode != "train"})
    notes = [f"hatched: {listed(list(map(phase_label, other_modes)))}"] if other_modes else []
    notes += [f"and {counted(len(workers) - 1, 'more worker')}"] if len(workers) > 1 else []
    if notes:
        theme.add_note(fig, " · ".join(notes))
    fig.update_layout(barmode="stack", bargap=0.1, hovermode="x unified")
    return theme.set_legend(theme.set_step_axis(fig))


def _has_growing_bins(edges: Sequence[float]) -> bool:
    """Return whether bins grow by equal factors instead of being equally wide."""
    widths = np.diff(np.asarray(edges, np.float64))
    return edges[0] > 0 and bool(widths[-1] > 2 * widths[0])


def _add_phases(fig: go.Figure, rows: pa.Table) -> None:
    """Add a bar for each step and phase; steps of modes other than training are hatched."""
    steps, counts = rows["step"].to_numpy(), np.maximum(rows["count"].to_numpy(), 1)
    shapes = ["" if mode == "train" else "/" for mode in rows["mode"].to_pylist()]
    pattern = {"shape": shapes, **_HATCH_PATTERN} if any(shapes) else {}
    for part in PARTS:
        times = rows[f"{part}_ns"].to_numpy() / counts / 1e9
        if not bool(np.any(times > 0)):
            continue
        marker = {"line": {"width": 0}, "pattern": pattern}
        theme.add_bars(
            fig,
            phase_label(part),
            steps,
            theme.float32(times),
            theme.phase_colour(part),
            SECONDS_ON_HOVER,
            marker=marker,
        )


def _labels(names: Sequence[str]) -> dict[str, str]:
    """Return the label of each ``worker/mode``: ``rank 0, train``, without what all have in common."""
    keys = [name.rpartition("/")[::2] for name in names]
    workers = worker_labels(dict.fromkeys(worker for worker, _ in keys))
    called = [(workers[worker], mode) for worker, mode in keys]
    shown = theme.distinguish(called) or [1]
    return {name: ", ".join(key[at] for at in shown) for name, key in zip(names, called, strict=True)}


def _add_durations(
    fig: go.Figure, index: int, name: str, rows: Mapping[str, Any], *, is_line: bool, has_band: bool
) -> None:
    label = theme.plain_text(name)
    mean = rows["duration_ns"] / np.maximum(rows["count"], 1) / 1e9
    shortest, longest = (rows[key] / 1e9 for key in ("shortest_ns", "longest_ns"))
    is_long = longest > _LONG * float(np.median(mean))
    if is_line and has_band and bool(np.any(rows["count"] > 1)):
        top = np.where(is_long, mean, longest)  # a single long step would hide all others
        theme.add_band(fig, rows["step"], shortest, top, index=index, group=label)
    line = with_gaps({"step": rows["step"], "mean": mean}, "step") if is_line else {"step": rows["step"], "mean": mean}
    mode, y = line_mode(mean) if is_line else "markers", theme.float32(line["mean"])
    theme.add_line(fig, index, label, line["step"], y, _STEP_ON_HOVER, legendgroup=label, mode=mode)
    _mark_long(fig, rows, np.flatnonzero(is_long), longest, theme.series_colour(index))


def _mark_long(fig: go.Figure, rows: Mapping[str, Any], indices: Any, longest: Any, colour: str) -> None:
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
            hovertemplate=_STEP_ON_HOVER,
        )
    )


def _groups(table: pa.Table) -> Iterator[tuple[str, dict[str, npt.NDArray[Any]]]]:
    """Yield each worker and mode with its columns, ordered by step."""
    names = pc.binary_join_element_wise(table["worker"], table["mode"], "/").to_numpy(zero_copy_only=False)
    columns = {
        name: table[name].to_numpy()
        for name in ("step", "duration_ns", "count", "longest_ns", "shortest_ns", "longest_step")
    }
    for name in sorted(set(names.tolist()), key=lambda name: (not name.endswith("/train"), natural_sort_key(name))):
        rows = np.flatnonzero(names == name)
        rows = rows[np.argsort(columns["step"][rows], kind="stable")]
        yield name, {key: column[rows] for key, column in columns.items()}


def rank_times(ranks: Ranks | None) -> go.Figure:
    """Draw the median step time of each rank without waiting for others; a straggler is coloured and named."""
    title = "Median own time of a step by rank"
    if ranks is None or not ranks.by_rank:
        return theme.empty(_ONE_RANK, title)
    names = sorted(ranks.by_rank)
    seconds = np.array([ranks.own_ms(rank) / 1e3 for rank in names])
    slowest = ranks.straggler.rank if ranks.straggler else None
    fig = theme.figure(title, x="rank")
    colours = [theme.FAULT if rank == slowest else theme.PALETTE[0] for rank in names]
    hover = f"rank %{{x}}: {SECONDS_ON_HOVER}<extra></extra>"
    theme.add_bars(fig, "", [str(rank) for rank in names], theme.float32(seconds), colours, hover)
    fig.update_xaxes(type="category").update_yaxes(SECONDS)
    return _note_straggler(fig, ranks)


def rank_phases(ranks: Ranks | None) -> go.Figure:
    """Draw the median time of each phase of a step, stacked, a bar for each rank."""
    if ranks is None or not ranks.by_rank:
        return theme.empty(_ONE_RANK, "Step phases by rank")
    names = sorted(ranks.by_rank)
    fig = theme.figure("Median step phases by rank", x="rank")
    fig.update_layout(barmode="stack", hovermode="x unified")
    for part in PARTS:
        times = np.array([ranks.by_rank[rank].get(part, 0.0) / 1e3 for rank in names])
        if times.any():
            x = [str(rank) for rank in names]
            label, colour = phase_label(part), theme.phase_colour(part)
            theme.add_bars(fig, label, x, theme.float32(times), colour, SECONDS_ON_HOVER)
    fig.update_xaxes(type="category").update_yaxes(SECONDS)
    return _note_straggler(theme.set_legend(fig), ranks)


def _note_straggler(fig: go.Figure, ranks: Ranks) -> go.Figure:
    """Note the straggler, or that there is none."""
    straggler = ranks.straggler
    text = f"no straggler in {ranks.steps:,} steps"
    if straggler is not None:
        text = (
            f"rank {straggler.rank} is slowest: {latency(straggler.lost_ms / 1e3)} per step longer in "
            f"{phase_label(straggler.phase)}"
        )
    return theme.add_note(fig, text)
