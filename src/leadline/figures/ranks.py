"""The ranks of a job side by side: how long their steps take, with what, and which one is slowest."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from leadline.analysis.ranks import Ranks
from leadline.analysis.steps import PARTS
from leadline.figures import theme
from leadline.figures.units import seconds_unit

_MISSING = "one rank trained alone: there is nothing to compare"


def step_times(ranks: Ranks | None, *, title: str = "Step time of each rank", missing: str = _MISSING) -> go.Figure:
    """The median time of a step, a bar a rank; the slowest is coloured and named."""
    if ranks is None or not ranks.by_rank:
        return theme.empty(missing, title)
    names = sorted(ranks.by_rank)
    seconds = np.array([ranks.by_rank[each]["step"] / 1e3 for each in names])
    unit = seconds_unit(float(seconds.max()))
    slowest = ranks.straggler.rank if ranks.straggler else None
    shown = theme.figure(title, x="rank", y=unit.titled("median time of a step"))
    shown.add_trace(
        go.Bar(
            x=[str(each) for each in names],
            y=theme.numbers(seconds * unit.factor),
            marker={"color": [theme.PALETTE[3] if each == slowest else theme.PALETTE[0] for each in names]},
            hovertemplate=f"rank %{{x}}: %{{y:.4g}} {unit.name}<extra></extra>",
        )
    )
    shown.update_xaxes(type="category")
    return _named(shown, ranks)


def phases(
    ranks: Ranks | None, *, title: str = "What a step is made of on each rank", missing: str = _MISSING
) -> go.Figure:
    """The median time of each phase of a step, on top of each other, a bar a rank."""
    if ranks is None or not ranks.by_rank:
        return theme.empty(missing, title)
    names = sorted(ranks.by_rank)
    unit = seconds_unit(max(each["step"] for each in ranks.by_rank.values()) / 1e3)
    shown = theme.figure(title, x="rank", y=unit.titled("median time"), barmode="stack", hovermode="x unified")
    for part in PARTS:
        taken = np.array([ranks.by_rank[each].get(part, 0.0) / 1e3 for each in names])
        if taken.any():
            shown.add_trace(
                go.Bar(
                    x=[str(each) for each in names],
                    y=theme.numbers(taken * unit.factor),
                    name=part,
                    marker={"color": theme.phase_colour(part)},
                    hovertemplate=f"%{{y:.4g}} {unit.name}",
                )
            )
    shown.update_xaxes(type="category")
    return _named(theme.set_legend(shown), ranks)


def _named(shown: go.Figure, ranks: Ranks) -> go.Figure:
    """Name the slowest rank, or say that none is."""
    slow = ranks.straggler
    words = f"no rank is slow: {ranks.steps:,} steps compared"
    if slow is not None:
        words = f"rank {slow.rank} is slowest: {slow.lost_ms:.3g} ms a step more in {slow.phase}"
    return theme.add_note(shown, words)
