"""Charts that compare the ranks of a job."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from leadline.analysis.ranks import Ranks
from leadline.analysis.steps import PARTS
from leadline.figures import theme
from leadline.figures.units import duration_unit

_MISSING = "single rank: nothing to compare"


def step_times(ranks: Ranks | None, *, title: str = "Step time by rank", missing: str = _MISSING) -> go.Figure:
    """Draw the median step time of each rank; a straggler is coloured and named."""
    if ranks is None or not ranks.by_rank:
        return theme.empty(missing, title)
    names = sorted(ranks.by_rank)
    seconds = np.array([ranks.by_rank[rank]["step"] / 1e3 for rank in names])
    unit = duration_unit(float(seconds.max()))
    slowest = ranks.straggler.rank if ranks.straggler else None
    fig = theme.figure(title, x="rank", y=unit.axis_title("median step time"))
    fig.add_trace(
        go.Bar(
            x=[str(rank) for rank in names],
            y=theme.float32(seconds * unit.factor),
            marker={"color": [theme.PALETTE[3] if rank == slowest else theme.PALETTE[0] for rank in names]},
            hovertemplate=f"rank %{{x}}: %{{y:.4g}} {unit.name}<extra></extra>",
        )
    )
    fig.update_xaxes(type="category")
    return _note_straggler(fig, ranks)


def phases(ranks: Ranks | None, *, title: str = "Step phases by rank", missing: str = _MISSING) -> go.Figure:
    """Draw the median time of each phase of a step, stacked, a bar for each rank."""
    if ranks is None or not ranks.by_rank:
        return theme.empty(missing, title)
    names = sorted(ranks.by_rank)
    unit = duration_unit(max(times["step"] for times in ranks.by_rank.values()) / 1e3)
    fig = theme.figure(title, x="rank", y=unit.axis_title("median time"), barmode="stack", hovermode="x unified")
    for part in PARTS:
        times = np.array([ranks.by_rank[rank].get(part, 0.0) / 1e3 for rank in names])
        if times.any():
            fig.add_trace(
                go.Bar(
                    x=[str(rank) for rank in names],
                    y=theme.float32(times * unit.factor),
                    name=part,
                    marker={"color": theme.phase_colour(part)},
                    hovertemplate=f"%{{y:.4g}} {unit.name}",
                )
            )
    fig.update_xaxes(type="category")
    return _note_straggler(theme.set_legend(fig), ranks)


def _note_straggler(fig: go.Figure, ranks: Ranks) -> go.Figure:
    """Note the straggler, or that there is none."""
    straggler = ranks.straggler
    text = f"no straggler in {ranks.steps:,} steps"
    if straggler is not None:
        text = f"rank {straggler.rank} is slowest: {straggler.lost_ms:.3g} ms per step longer in {straggler.phase}"
    return theme.add_note(fig, text)
