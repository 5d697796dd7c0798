"""What the training did over time: lanes of its phases, their shares, and its progress."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.job import JobPhases
from leadline.analysis.steps import PARTS
from leadline.figures import theme
from leadline.reader.window import natural_sort_key

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]

_MOST_LANES: Final = 24
_FINEST: Final = 1500
"""A pause of less than one in so many parts of the interval is not drawn."""
_LANE_PIXELS: Final = 26
_MOST_INTERRUPTIONS: Final = 50
_MOST_BARS: Final = 300
_WORDY: Final = 0.1
"""The share of the time from which on there is room for words."""


def lanes(
    timeline: pa.Table, *, title: str = "What the training did", missing: str = "no phase ran in this interval"
) -> go.Figure:
    """When each phase of a worker was under way: a lane a phase, and one for the steps of each mode.

    Args:
        timeline: As ``Run.timeline`` gives it, of an interval and one worker. Rows that lie closer than the screen is
            fine are drawn as one.
    """
    if not timeline.num_rows:
        return theme.empty(missing, title)
    starts = timeline["start_ns"].to_numpy()
    ends = starts + timeline["duration_ns"].to_numpy()
    fine = max(1, int((ends.max() - starts.min()) // _FINEST))
    names = _lane_names(timeline)
    shown = theme.figure(title, barmode="overlay", bargap=0.25)
    known = sorted(set(names), key=_lane_order)
    for lane in known[:_MOST_LANES]:
        is_mine = np.array([each == lane for each in names])
        begin, end, count = _merged(starts[is_mine], ends[is_mine], fine)
        _add_lane(shown, lane, begin, end, count)
    theme.left_out(shown, len(known) - _MOST_LANES, "kinds of events")
    shown.update_yaxes(autorange="reversed", type="category", showgrid=False)
    shown.update_layout(height=100 + _LANE_PIXELS * max(3, min(len(known), _MOST_LANES)), showlegend=False)
    return theme.set_time_axis(shown)


def over_time(
    table: pa.Table, *, title: str = "What steps were made of over time", missing: str = "no steps were timed"
) -> go.Figure:
    """The share of each phase in the time of the steps, over time; all workers together.

    Args:
        table: As ``Digest.steps`` gives it.
    """
    if not table.num_rows:
        return theme.empty(missing, title)
    start, end = (int(fold(table[name].to_numpy())) for name, fold in (("start_ns", np.min), ("end_ns", np.max)))
    edges = np.linspace(start, max(end, start + 1_000_000), min(_MOST_BARS, table.num_rows) + 1).astype(np.int64)
    sums = _in_bins(table, edges)
    whole = sums.sum(axis=1)
    shown = theme.figure(title, y="share of step time (%)")
    middles = theme.moments(edges[:-1] + np.diff(edges) // 2)
    for part in (each for each in theme.PHASE_ORDER if each in PARTS):
        taken = sums[:, PARTS.index(part)]
        if bool(np.any(taken > 0)):
            shares = np.divide(100.0 * taken, whole, out=np.full(len(whole), np.nan), where=whole > 0)
            shown.add_trace(
                go.Bar(
                    x=middles,
                    y=theme.numbers(shares),
                    width=float(edges[1] - edges[0]) / 1e6,
                    name=part,
                    marker={"color": theme.phase_colour(part), "line": {"width": 0}},
                    hovertemplate="%{y:.1f} %",
                )
            )
    shown.update_layout(barmode="stack", bargap=0, hovermode="x unified").update_yaxes(range=[0, 100])
    return theme.set_legend(theme.set_time_axis(shown)).update_layout(showlegend=True)


def progress(
    table: pa.Table,
    *,
    job: JobPhases | None = None,
    interruptions: Sequence[tuple[int, int]] = (),
    title: str = "Progress",
    missing: str = "no step was timed yet",
) -> go.Figure:
    """Steps over time, with the phases of the job behind them and the pauses in which nothing ran.

    Args:
        table: As ``Digest.steps`` gives it.
        job: Whose phases are shown.
        interruptions: Start and end of each, ns since the epoch.
    """
    if not table.num_rows:
        return theme.empty(missing, title)
    shown = theme.figure(title, y="steps done")
    groups = table.group_by(["worker", "mode"]).aggregate([]).to_pylist()
    groups.sort(
        key=lambda each: (each["mode"] != "train", natural_sort_key(each["mode"]), natural_sort_key(each["worker"]))
    )
    several = len({each["worker"] for each in groups}) > 1
    for place, key in enumerate(groups[: theme.MOST_SERIES]):
        is_one = pc.and_(pc.equal(table["worker"], key["worker"]), pc.equal(table["mode"], key["mode"]))
        rows = table.filter(is_one).sort_by("start_ns")
        name = theme.plain(f"{key['mode']} {key['worker']}" if several else key["mode"])
        _add_progress(shown, place, name, rows)
    _shade_job(shown, job)
    for place, (start, end) in enumerate(interruptions[:_MOST_INTERRUPTIONS]):
        _shade(shown, start, end, theme.PALETTE[3], "interrupted", has_words=place == 0)
    theme.left_out(shown, len(groups) - theme.MOST_SERIES, "workers and modes")
    shown.update_yaxes(rangemode="tozero", tickformat=",d")
    return theme.set_legend(theme.set_time_axis(shown))


def _in_bins(table: pa.Table, edges: Integers) -> npt.NDArray[np.float64]:
    """Nanoseconds of each part in each interval; a row's are spread evenly over it, ``(intervals, PARTS)``."""
    found = np.zeros((len(edges) - 1, len(PARTS)))
    for key in table.group_by(["worker", "mode"]).aggregate([]).to_pylist():
        is_one = pc.and_(pc.equal(table["worker"], key["worker"]), pc.equal(table["mode"], key["mode"]))
        rows = table.filter(is_one).sort_by("start_ns")
        knots = np.stack([rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()], axis=1).ravel()
        knots = np.maximum.accumulate(knots)
        for at, part in enumerate(PARTS):
            so_far = np.cumsum(rows[f"{part}_ns"].to_numpy().astype(np.float64))
            levels = np.stack([np.append(0.0, so_far[:-1]), so_far], axis=1).ravel()
            found[:, at] += np.diff(np.interp(edges, knots, levels))
    return found


def _add_progress(shown: go.Figure, place: int, name: str, rows: pa.Table) -> None:
    done = np.cumsum(rows["count"].to_numpy())
    x = np.append(rows["start_ns"].to_numpy()[:1], rows["end_ns"].to_numpy())
    shown.add_trace(
        go.Scatter(
            x=theme.moments(x),
            y=np.append(0, done),
            name=name,
            mode="lines",
            line={"color": theme.colour(place), "width": 2, "dash": theme.dash(place)},
            hovertemplate="%{y:,} steps",
        )
    )


def _shade_job(shown: go.Figure, job: JobPhases | None) -> None:
    if job is None or job.loop_started_ns is None or job.loop_ended_ns is None:
        return
    for name, start, end in (
        ("initialization", job.started_ns, job.loop_started_ns),
        ("finalization", job.loop_ended_ns, job.ended_ns),
    ):
        share = (end - start) / 1e9 / max(job.seconds, 1e-9)
        if share > 0.005:
            _shade(shown, start, end, theme.phase_colour(name), name, has_words=share > _WORDY)


def _shade(shown: go.Figure, start_ns: int, end_ns: int, hue: str, words: str, *, has_words: bool) -> None:
    x0, x1 = theme.moments([start_ns, end_ns]).tolist()
    shown.add_vrect(x0=x0, x1=x1, fillcolor=theme.faint(hue, 0.16), line_width=0, layer="below", name=words)
    if has_words:
        shown.add_annotation(
            x=(x0 + x1) / 2, y=1, yref="paper", yanchor="top", text=words, showarrow=False, font={"size": 11}
        )


def _lane_names(timeline: pa.Table) -> list[str]:
    """``train steps`` of steps, else the name."""
    pairs = zip(timeline["name"].to_pylist(), timeline["phase"].to_pylist(), strict=True)
    return [f"{phase} steps" if name == "step" else name for name, phase in pairs]


def _lane_order(lane: str) -> tuple[int, int, tuple[Any, ...]]:
    if lane.endswith(" steps"):
        return 0, 0, natural_sort_key(lane)
    known = theme.PHASE_ORDER.index(lane) if lane in theme.PHASE_ORDER else len(theme.PHASE_ORDER)
    return 1, known, natural_sort_key(lane)


def _merged(starts: Integers, ends: Integers, fine: int) -> tuple[Integers, Integers, Integers]:
    """Intervals that are too short to be seen put together where less than so much lies between, and their numbers."""
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    latest, is_short = np.maximum.accumulate(ends), ends - starts < fine
    first = np.append(True, (starts[1:] - latest[:-1] >= fine) | ~(is_short[1:] & is_short[:-1]))
    places = np.flatnonzero(first)
    counts = np.diff(np.append(places, len(starts)))
    return starts[places], latest[np.append(places[1:], len(starts)) - 1], counts


def _add_lane(shown: go.Figure, lane: str, starts: Integers, ends: Integers, counts: Integers) -> None:
    name = theme.plain(lane, 40)
    lengths = np.maximum((ends - starts) / 1e6, 0.001)
    texts = [
        f"{length:.3g} ms" if count == 1 else f"{count:,} in {length:.3g} ms"
        for length, count in zip(lengths.tolist(), counts.tolist(), strict=True)
    ]
    edge = 0.5 if lane.endswith(" steps") else 0
    shown.add_trace(
        go.Bar(
            orientation="h",
            base=starts / 1e6,
            x=theme.numbers(lengths),
            y=[name] * len(starts),
            name=name,
            text=texts,
            textposition="none",
            hovertemplate=f"{name}: %{{text}}<extra></extra>",
            marker={
                "color": theme.phase_colour(lane.removesuffix(" steps")),
                "line": {"width": edge, "color": theme.EDGE},
            },
        )
    )
