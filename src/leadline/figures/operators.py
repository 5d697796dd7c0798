"""Operators: the dearest of them, and how computing divides among devices and phases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import plotly.graph_objects as go

from leadline.figures import theme
from leadline.figures.units import seconds_unit

_ROW_PIXELS: Final = 22
_MOST_LABEL: Final = 60


def bars(
    rows: Sequence[Mapping[str, Any]],
    *,
    most: int = 15,
    title: str = "The dearest operators",
    missing: str = "no detailed profile was recorded: leadline profile --detailed records one",
) -> go.Figure:
    """A bar for each of the operators that took most time, the dearest at the top.

    Args:
        rows: As ``analysis.operators.dearest`` gives them.
        most: So many bars.
    """
    found = [each for each in rows if each["own_ns"] > 0][:most]
    if not found:
        return theme.empty(missing, title)
    unit = seconds_unit(found[0]["own_ns"] / 1e9)
    shown = theme.figure(title, x=unit.titled("own time"))
    devices = list(dict.fromkeys(each["device"] for each in found))
    on = {each: f" on {each}" if len(devices) > 1 and each != "cpu" else "" for each in devices}
    labels = theme.labels((each["label"] + on[each["device"]] for each in found), _MOST_LABEL)
    for place, device in enumerate(devices):
        mine = [(label, each) for label, each in zip(labels, found, strict=True) if each["device"] == device]
        shown.add_trace(
            go.Bar(
                orientation="h",
                y=[label for label, _ in mine],
                name=theme.plain(device, 40),
                x=theme.numbers([each["own_ns"] / 1e9 * unit.factor for _, each in mine]),
                text=[f"{100 * each['share']:.1f} %" for _, each in mine],
                textposition="outside",
                cliponaxis=False,
                customdata=[
                    f"{each['calls']:,} calls, with those before it {100 * each['cumulative_share']:.0f} %"
                    for _, each in mine
                ],
                marker={"color": theme.colour(place)},
                hovertemplate=f"%{{y}}<br>%{{x:.3g}} {unit.name}, %{{text}}<br>%{{customdata}}<extra></extra>",
            )
        )
    shown.update_xaxes(range=[0, 1.2 * found[0]["own_ns"] / 1e9 * unit.factor])
    shown.update_yaxes(type="category", categoryorder="array", categoryarray=labels[::-1], showgrid=False)
    height = 150 + _ROW_PIXELS * len(found)
    return theme.set_legend(shown).update_layout(barmode="overlay", height=height, bargap=0.25)
