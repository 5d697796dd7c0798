"""Box plots: how metrics of the machine are spread, device by device."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from leadline.analysis.distribution import Distribution
from leadline.figures import theme
from leadline.figures.units import unit_of, words_of
from leadline.figures.usage import device_words

_MOST = 64


def boxes(found: Sequence[Distribution], *, title: str = "", missing: str = "not measured on this node") -> go.Figure:
    """A box for each sensor: quartiles and median, whiskers from the 5th to the 95th percentile, a point for the mean.

    Args:
        found: As ``analysis.spread.spreads`` gives them, of metrics of one unit.
    """
    if not found:
        return theme.empty(missing, title)
    unit = unit_of(found[0].metric, max(each.max for each in found))
    metrics = list(dict.fromkeys((each.kind, each.metric) for each in found))
    words = " and ".join(words_of(*each) for each in metrics[:3])
    shown = theme.figure(title or theme.plain(words[:1].upper() + words[1:]), y=unit.titled("used"))
    drawn = found[:_MOST]
    names = theme.labels((_name(each, found) for each in drawn), 40)
    for place, metric in enumerate(metrics):
        mine = [at for at, each in enumerate(drawn) if (each.kind, each.metric) == metric]
        columns = {
            key: theme.numbers([getattr(drawn[at], name) * unit.factor for at in mine])
            for key, name in (
                ("lowerfence", "p5"),
                ("q1", "p25"),
                ("median", "p50"),
                ("q3", "p75"),
                ("upperfence", "p95"),
                ("mean", "mean"),
            )
        }
        shown.add_trace(
            go.Box(
                x=[names[at] for at in mine],
                **columns,
                name=theme.plain(words_of(*metric)),
                boxmean=True,
                marker={"color": theme.colour(place)},
                line={"width": 1.2},
            )
        )
    theme.left_out(shown, len(found) - _MOST, "devices")
    shown.update_xaxes(type="category", title_text="whiskers: 5th and 95th percentile; dashed: mean")
    shown.update_yaxes(rangemode="tozero")
    return theme.set_legend(shown)


def _name(each: Distribution, found: Sequence[Distribution]) -> str:
    """What tells a box from the others."""
    parts = [each.node] if len({one.node for one in found}) > 1 else []
    if len({(one.kind, one.metric) for one in found}) > 1:
        parts.append(words_of(each.kind, each.metric))
    if len({one.device for one in found}) > 1 or not parts:
        parts.append(device_words(each.kind, each.device))
    return " ".join(parts)
