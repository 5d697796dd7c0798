"""Charts of training phases: tracks, shares and progress over time, pie charts and share bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.job import JobPhases
from leadline.charts import theme
from leadline.reader.window import natural_sort_key
from leadline.records.formatting import duration, latency, phase_label, worker_labels
from leadline.records.names import PARTS

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]

_MAX_TRACKS: Final = 24
_RESOLUTION: Final = 1500
"""Pauses shorter than the interval divided by this are not drawn."""
_TRACK_PIXELS: Final = 26
_MAX_INTERRUPTIONS: Final = 50
_MAX_BARS: Final = 300
_MIN_LABELLED_SHARE: Final = 0.1
"""Smallest share of the time with room for a label."""
_MAX_SLICES: Final = 8


def tracks(timeline: pa.Table, *, title: str = "Training phases") -> go.Figure:
    """Draw when each phase of a worker ran: a track for each phase, and one for the steps of each mode.

    Args:
        timeline: From ``Run.timeline``, of an interval and one worker. Rows closer than the screen resolution are
            drawn as one.
    """
    if not timeline.num_rows:
        return theme.empty("no phase ran in this interval", title)
    starts = timeline["start_ns"].to_numpy()
    ends = starts + timeline["duration_ns"].to_numpy()
    resolution_ns = max(1, int((ends.max() - starts.min()) // _RESOLUTION))
    names = _track_names(timeline)
    fig = theme.figure(title, barmode="overlay", bargap=0.25)
    track_names = sorted(set(names), key=_track_order)
    for track in track_names[:_MAX_TRACKS]:
        is_in_track = np.array([name == track for name in names])
        start_times, end_times, counts = _merge_short(starts[is_in_track], ends[is_in_track], resolution_ns)
        _add_track(fig, track, start_times, end_times, counts)
    theme.note_omitted(fig, len(track_names) - _MAX_TRACKS, "event types")
    fig.update_yaxes(autorange="reversed", type="category", showgrid=False)
    fig.update_layout(height=100 + _TRACK_PIXELS * max(3, min(len(track_names), _MAX_TRACKS)), showlegend=False)
    return theme.set_time_axis(fig)


def over_time(table: pa.Table, *, missing: str = "no steps were timed") -> go.Figure:
    """Draw the share of each phase in step time over time, all workers together.

    Args:
        table: From ``Digest.steps``.
    """
    if not table.num_rows:
        return theme.empty(missing, "Step phases over time")
    start, end = (
        int(function(table[name].to_numpy())) for name, function in (("start_ns", np.min), ("end_ns", np.max))
    )
    edges = np.linspace(start, max(end, start + 1_000_000), min(_MAX_BARS, table.num_rows) + 1).astype(np.int64)
    sums = _sum_in_bins(table, edges)
    totals = sums.sum(axis=1)
    fig = theme.figure("Share of step time by phase", yaxis_ticksuffix=" %")
    midpoints = theme.epoch_ms(edges[:-1] + np.diff(edges) // 2)
    for part in (phase for phase in theme.PHASE_ORDER if phase in PARTS):
        phase_ns = sums[:, PARTS.index(part)]
        if bool(np.any(phase_ns > 0)):
            shares = np.divide(100.0 * phase_ns, totals, out=np.full(len(totals), np.nan), where=totals > 0)
            width, marker = float(edges[1] - edges[0]) / 1e6, {"line": {"width": 0}}
            y, colour = theme.float32(shares), theme.phase_colour(part)
            theme.add_bars(fig, phase_label(part), midpoints, y, colour, "%{y:.3~g} %", width=width, marker=marker)
    fig.update_layout(barmode="stack", bargap=0, hovermode="x unified").update_yaxes(range=[0, 100])
    return theme.set_legend(theme.set_time_axis(fig)).update_layout(showlegend=True)


def progress(
    table: pa.Table,
    *,
    job: JobPhases | None = None,
    interruptions: Sequence[tuple[int, int]] = (),
) -> go.Figure:
    """Draw steps over time, with the phases of the job and interruptions as background.

    Args:
        table: From ``Digest.steps``.
        job: Phases of the job.
        interruptions: Start and end of each interruption, ns since the epoch.
    """
    if not table.num_rows:
        return theme.empty("no step was timed yet", "Progress")
    fig = theme.figure("Completed steps")
    groups = table.group_by(["worker", "mode"]).aggregate([]).to_pylist()
    groups.sort(
        key=lambda key: (key["mode"] != "train", natural_sort_key(key["mode"]), natural_sort_key(key["worker"]))
    )
    workers = worker_labels(dict.fromkeys(key["worker"] for key in groups))
    for index, key in enumerate(groups[: theme.MAX_SERIES]):
        is_group = pc.and_(pc.equal(table["worker"], key["worker"]), pc.equal(table["mode"], key["mode"]))
        rows = table.filter(is_group).sort_by("start_ns")
        name = theme.plain_text(f"{key['mode']}, {workers[key['worker']]}" if len(workers) > 1 else key["mode"])
        _add_progress(fig, index, name, rows)
    _shade_job(fig, job)
    for index, (start, end) in enumerate(interruptions[:_MAX_INTERRUPTIONS]):
        _shade_interval(fig, start, end, theme.FAULT, "interrupted", has_label=index == 0)
    theme.note_omitted(fig, len(groups) - theme.MAX_SERIES, "workers and modes")
    fig.update_yaxes(rangemode="tozero", tickformat=",d")
    return theme.set_legend(theme.set_time_axis(fig))


def _sum_in_bins(table: pa.Table, edges: Integers) -> npt.NDArray[np.float64]:
    """Return the nanoseconds of each part in each interval, ``(intervals, PARTS)``; rows are spread evenly."""
    sums = np.zeros((len(edges) - 1, len(PARTS)))
    for key in table.group_by(["worker", "mode"]).aggregate([]).to_pylist():
        is_group = pc.and_(pc.equal(table["worker"], key["worker"]), pc.equal(table["mode"], key["mode"]))
        rows = table.filter(is_group).sort_by("start_ns")
        boundaries = np.stack([rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()], axis=1).ravel()
        boundaries = np.maximum.accumulate(boundaries)
        for column, part in enumerate(PARTS):
            cumulative = np.cumsum(rows[f"{part}_ns"].to_numpy().astype(np.float64))
            levels = np.stack([np.append(0.0, cumulative[:-1]), cumulative], axis=1).ravel()
            sums[:, column] += np.diff(np.interp(edges, boundaries, levels))
    return sums


def _add_progress(fig: go.Figure, index: int, name: str, rows: pa.Table) -> None:
    completed = np.cumsum(rows["count"].to_numpy())
    x = np.append(rows["start_ns"].to_numpy()[:1], rows["end_ns"].to_numpy())
    theme.add_line(fig, index, name, theme.epoch_ms(x), np.append(0, completed), "%{y:,} steps", line={"width": 2})


def _shade_job(fig: go.Figure, job: JobPhases | None) -> None:
    if job is None or job.loop_started_ns is None or job.loop_ended_ns is None:
        return
    for name, start, end in (
        ("initialization", job.started_ns, job.loop_started_ns),
        ("finalization", job.loop_ended_ns, job.ended_ns),
    ):
        share = (end - start) / 1e9 / max(job.seconds, 1e-9)
        if share > 0.005:
            _shade_interval(fig, start, end, theme.phase_colour(name), name, has_label=share > _MIN_LABELLED_SHARE)


def _shade_interval(fig: go.Figure, start_ns: int, end_ns: int, colour: str, label: str, *, has_label: bool) -> None:
    """Shade an interval; its label begins with it, or ends with it at the end of the chart, also where it is wider."""
    x0, x1 = theme.epoch_ms([start_ns, end_ns]).tolist()
    x, anchor = (x1, "right") if label == "finalization" else (x0, "left")
    fig.add_vrect(x0=x0, x1=x1, fillcolor=theme.translucent(colour, 0.16), line_width=0, layer="below", name=label)
    if has_label:
        fig.add_annotation(
            x=x, xanchor=anchor, y=1, yref="paper", yanchor="top", text=label, showarrow=False, font={"size": 11}
        )


def _track_names(timeline: pa.Table) -> list[str]:
    """Return ``train steps`` for steps, else the event's name."""
    pairs = zip(timeline["name"].to_pylist(), timeline["phase"].to_pylist(), strict=True)
    return [f"{phase} steps" if name == "step" else name for name, phase in pairs]


def _track_order(track: str) -> tuple[int, int, tuple[Any, ...]]:
    if track.endswith(" steps"):
        return 0, 0, natural_sort_key(track)
    index = theme.PHASE_ORDER.index(track) if track in theme.PHASE_ORDER else len(theme.PHASE_ORDER)
    return 1, index, natural_sort_key(track)


def _merge_short(starts: Integers, ends: Integers, resolution_ns: int) -> tuple[Integers, Integers, Integers]:
    """Merge intervals and gaps shorter than ``resolution_ns``; return starts, ends and counts."""
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    latest, is_short = np.maximum.accumulate(ends), ends - starts < resolution_ns
    is_first = np.append(True, (starts[1:] - latest[:-1] >= resolution_ns) | ~(is_short[1:] & is_short[:-1]))
    first_indices = np.flatnonzero(is_first)
    counts = np.diff(np.append(first_indices, len(starts)))
    return starts[first_indices], latest[np.append(first_indices[1:], len(starts)) - 1], counts


def _add_track(fig: go.Figure, track: str, starts: Integers, ends: Integers, counts: Integers) -> None:
    name = theme.plain_text(track, 40)
    lengths = np.maximum((ends - starts) / 1e6, 0.001)
    texts = [
        latency(length / 1e3) if count == 1 else f"{count:,} in {latency(length / 1e3)}"
        for length, count in zip(lengths.tolist(), counts.tolist(), strict=True)
    ]
    edge = {"width": 0.5 if track.endswith(" steps") else 0, "color": theme.EDGE}
    theme.add_bars(
        fig,
        name,
        theme.float32(lengths),
        [name] * len(starts),
        theme.phase_colour(track.removesuffix(" steps")),
        f"{name}: %{{text}}<extra></extra>",
        base=starts / 1e6,
        text=texts,
        marker={"line": edge},
        **theme.HORIZONTAL,
    )


def pie(
    parts: Mapping[str, float],
    *,
    title: str,
    colours: Mapping[str, str] | None = None,
    missing: str = "nothing was timed",
) -> go.Figure:
    """Draw a pie of seconds, largest first from the top; beyond eight slices the smallest are merged.

    Args:
        parts: Seconds by name.
    """
    slices = sorted(((name, seconds) for name, seconds in parts.items() if seconds > 0), key=lambda item: -item[1])
    if not slices:
        return theme.empty(missing, title)
    slices = _merge_smallest(slices)
    total = sum(seconds for _, seconds in slices)
    names = [f"{theme.plain_text(phase_label(name), 40)}  {_percent(seconds / total)}" for name, seconds in slices]
    palette = {**theme.PHASE_COLOURS, **(colours or {})}
    fig = theme.figure(title)
    fig.add_trace(
        go.Pie(
            labels=names,
            values=[round(seconds, 6) for _, seconds in slices],
            sort=False,
            direction="clockwise",
            hole=0.45,
            marker={"colors": [palette.get(name, theme.series_colour(at)) for at, (name, _) in enumerate(slices)]},
            text=[duration(seconds) for _, seconds in slices],
            textinfo="percent",
            insidetextorientation="horizontal",
            hovertemplate="%{label}<br>%{text}<extra></extra>",
            insidetextfont={"color": "#ffffff"},
            textposition="inside",
            domain={"x": [0, 0.55]},
        )
    )
    legend = {"orientation": "v", "x": 0.6, "y": 0.5, "yref": "paper", "yanchor": "middle"}
    return fig.update_layout(
        showlegend=True, legend=legend, margin={"t": 44, "b": 16, "l": 16}, uniformtext={"minsize": 10, "mode": "hide"}
    )


def job_phases(job: JobPhases) -> go.Figure:
    """Draw a pie of initialization, training loop and finalization."""
    if job.loop_started_ns is None:
        return theme.empty("no step was timed, so the job cannot be divided into phases", "Job phases")
    parts = {
        "initialization": job.initialization_seconds,
        "training_loop": job.loop_seconds,
        "finalization": job.finalization_seconds,
    }
    return pie(parts, title="Job phases")


def shares(seconds: Mapping[str, float]) -> go.Figure:
    """Draw one bar divided among phases.

    Args:
        seconds: By phase, from ``Digest.phases``.
    """
    present = {name: seconds[name] for name in _ordered(seconds) if seconds[name] > 0}
    total = sum(present.values())
    if not total:
        return theme.empty("no phase ran in this interval", "Time breakdown")
    fig = theme.figure("Time breakdown", xaxis_ticksuffix=" %")
    for name, phase_seconds in present.items():
        share = 100.0 * phase_seconds / total
        label = theme.plain_text(phase_label(name), 40)
        theme.add_bars(
            fig,
            f"{label} {_percent(share / 100)}",
            [round(share, 3)],
            [""],
            theme.phase_colour(name),
            f"{label}: %{{text}}, %{{x:.3~g}} %<extra></extra>",
            text=[duration(phase_seconds)],
            **theme.HORIZONTAL,
        )
    theme.set_legend(fig).update_layout(barmode="stack", bargap=0.2, showlegend=True)
    fig.update_layout(height=140 + 19 * int(fig.layout.meta["legend_rows"] if len(present) > 1 else 0))
    fig.update_xaxes(range=[0, 100])
    return fig.update_yaxes(visible=False)


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.0f} %" if ratio >= 0.0995 else f"{100 * ratio:.1f} %"


def _ordered(seconds: Mapping[str, Any]) -> list[str]:
    known = [phase for phase in theme.PHASE_ORDER if phase in seconds]
    return [*known, *(phase for phase in seconds if phase not in known)]


def _merge_smallest(slices: list[tuple[str, float]]) -> list[tuple[str, float]]:
    if len(slices) <= _MAX_SLICES:
        return slices
    rest = slices[_MAX_SLICES - 1 :]
    return [*slices[: _MAX_SLICES - 1], (f"{len(rest)} others", sum(seconds for _, seconds in rest))]
