"""Box plots of system metrics per device."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from leadline.analysis.distribution import Distribution
from leadline.figures import theme
from leadline.figures.units import metric_label, unit_of
from leadline.figures.usage import device_label

_MAX_BOXES = 64


def boxes(
    distributions: Sequence[Distribution], *, title: str = "", missing: str = "not measured on this node"
) -> go.Figure:
    """Draw a box for each sensor: quartiles, median, mean, and whiskers at the 5th and 95th percentile.

    Args:
        distributions: From ``analysis.distribution``, of metrics of one unit.
    """
    if not distributions:
        return theme.empty(missing, title)
    unit = unit_of(distributions[0].metric, max(distribution.max for distribution in distributions))
    metrics = list(dict.fromkeys((distribution.kind, distribution.metric) for distribution in distributions))
    label = " and ".join(metric_label(*metric) for metric in metrics[:3])
    fig = theme.figure(title or theme.plain_text(label[:1].upper() + label[1:]), y=unit.axis_title("utilization"))
    shown_distributions = distributions[:_MAX_BOXES]
    names = theme.unique_labels((_name(distribution, distributions) for distribution in shown_distributions), 40)
    for index, metric in enumerate(metrics):
        indices = [
            at
            for at, distribution in enumerate(shown_distributions)
            if (distribution.kind, distribution.metric) == metric
        ]
        columns = {
            key: theme.float32([getattr(shown_distributions[at], name) * unit.factor for at in indices])
            for key, name in (
                ("lowerfence", "p5"),
                ("q1", "p25"),
                ("median", "p50"),
                ("q3", "p75"),
                ("upperfence", "p95"),
                ("mean", "mean"),
            )
        }
        fig.add_trace(
            go.Box(
                x=[names[at] for at in indices],
                **columns,
                name=theme.plain_text(metric_label(*metric)),
                boxmean=True,
                marker={"color": theme.series_colour(index)},
                line={"width": 1.2},
            )
        )
    theme.note_omitted(fig, len(distributions) - _MAX_BOXES, "devices")
    fig.update_xaxes(type="category", title_text="whiskers: 5th and 95th percentile; dashed: mean")
    fig.update_yaxes(rangemode="tozero")
    return theme.set_legend(fig)


def _name(distribution: Distribution, distributions: Sequence[Distribution]) -> str:
    """Return a label that distinguishes a box from the others."""
    parts = [distribution.node] if len({other.node for other in distributions}) > 1 else []
    if len({(other.kind, other.metric) for other in distributions}) > 1:
        parts.append(metric_label(distribution.kind, distribution.metric))
    if len({other.device for other in distributions}) > 1 or not parts:
        parts.append(device_label(distribution.kind, distribution.device))
    return " ".join(parts)
