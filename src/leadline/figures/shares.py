"""Parts of a whole: pies, and one bar of shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import plotly.graph_objects as go

from leadline.analysis.job import JobPhases
from leadline.figures import theme
from leadline.records.formatting import duration

_MOST_SLICES: Final = 8


def pie(
    parts: Mapping[str, float],
    *,
    title: str,
    colours: Mapping[str, str] | None = None,
    missing: str = "nothing was timed",
) -> go.Figure:
    """Shares of a whole of seconds, the largest first from the top; beyond eight the smallest are put together.

    Args:
        parts: Seconds by name.
    """
    found = sorted(((name, each) for name, each in parts.items() if each > 0), key=lambda each: -each[1])
    if not found:
        return theme.empty(missing, title)
    found = _gathered(found)
    whole = sum(each for _, each in found)
    names = [f"{theme.plain(name.replace('_', ' '), 40)}  {_percent(each / whole)}" for name, each in found]
    hues = {**theme.PHASE_COLOURS, **(colours or {})}
    shown = theme.figure(title)
    shown.add_trace(
        go.Pie(
            labels=names,
            values=[round(each, 6) for _, each in found],
            sort=False,
            direction="clockwise",
            hole=0.45,
            marker={"colors": [hues.get(name, theme.colour(at)) for at, (name, _) in enumerate(found)]},
            text=[duration(each) for _, each in found],
            textinfo="percent",
            insidetextorientation="horizontal",
            hovertemplate="%{label}<br>%{text}<extra></extra>",
            insidetextfont={"color": "#ffffff"},
            textposition="inside",
            domain={"x": [0, 0.55]},
        )
    )
    legend = {"orientation": "v", "x": 0.6, "y": 0.5, "yref": "paper", "yanchor": "middle"}
    return shown.update_layout(
        showlegend=True, legend=legend, margin={"t": 44, "b": 16, "l": 16}, uniformtext={"minsize": 10, "mode": "hide"}
    )


def job_phases(job: JobPhases, *, title: str = "The job") -> go.Figure:
    """Initialization, training loop and finalization."""
    if job.loop_started_ns is None:
        return theme.empty("no step was timed: the job cannot be told into its phases", title)
    parts = {
        "initialization": job.initialization_seconds,
        "training_loop": job.loop_seconds,
        "finalization": job.finalization_seconds,
    }
    return pie(parts, title=title)


def shares(
    seconds: Mapping[str, float], *, title: str = "Where the time went", missing: str = "no phase ran in this interval"
) -> go.Figure:
    """One bar, divided among phases.

    Args:
        seconds: By phase, as ``Digest.phases`` gives them.
    """
    found = {name: seconds[name] for name in _ordered(seconds) if seconds[name] > 0}
    whole = sum(found.values())
    if not whole:
        return theme.empty(missing, title)
    shown = theme.figure(title, x="share of the time (%)")
    for name, each in found.items():
        share = 100.0 * each / whole
        label = theme.plain(name, 40)
        shown.add_trace(
            go.Bar(
                x=[round(share, 3)],
                y=[""],
                name=f"{label} {_percent(share / 100)}",
                orientation="h",
                text=[duration(each)],
                textposition="none",
                marker={"color": theme.phase_colour(name)},
                hovertemplate=f"{label}: %{{text}}, %{{x:.1f}} %<extra></extra>",
            )
        )
    theme.set_legend(shown).update_layout(barmode="stack", bargap=0.2, showlegend=True)
    shown.update_layout(height=140 + 19 * int(shown.layout.meta["legend_rows"] if len(found) > 1 else 0))
    shown.update_xaxes(range=[0, 100])
    return shown.update_yaxes(visible=False)


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.0f} %" if ratio >= 0.0995 else f"{100 * ratio:.1f} %"


def _ordered(seconds: Mapping[str, Any]) -> list[str]:
    known = [each for each in theme.PHASE_ORDER if each in seconds]
    return [*known, *(each for each in seconds if each not in known)]


def _gathered(found: list[tuple[str, float]]) -> list[tuple[str, float]]:
    if len(found) <= _MOST_SLICES:
        return found
    rest = found[_MOST_SLICES - 1 :]
    return [*found[: _MOST_SLICES - 1], (f"{len(rest)} others", sum(each for _, each in rest))]
