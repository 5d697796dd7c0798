"""Pie charts and share bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import plotly.graph_objects as go

from leadline.analysis.job import JobPhases
from leadline.charts import theme
from leadline.records.formatting import duration

_MAX_SLICES: Final = 8


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
    names = [f"{theme.plain_text(name.replace('_', ' '), 40)}  {_percent(seconds / total)}" for name, seconds in slices]
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
    fig = theme.figure("Time breakdown", x="share of time (%)")
    for name, phase_seconds in present.items():
        share = 100.0 * phase_seconds / total
        label = theme.plain_text(name, 40)
        theme.add_bars(
            fig,
            f"{label} {_percent(share / 100)}",
            [round(share, 3)],
            [""],
            theme.phase_colour(name),
            f"{label}: %{{text}}, %{{x:.1f}} %<extra></extra>",
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
