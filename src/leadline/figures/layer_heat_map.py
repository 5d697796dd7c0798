"""The whole network at one glance: one statistic of its tensors over layers and steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go

from leadline.figures import theme

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_MOST_ROWS: Final = 160
_ROW_PIXELS: Final = 14
_RATIOS: Final = ("ratio", "share", "fraction")
_ZERO: Final = 1.0
"""So many powers of ten below the least magnitude a zero is drawn."""


def layers(
    found: Mapping[str, Any],
    *,
    statistic: str,
    is_log: bool | None = None,
    title: str = "",
    missing: str = "nothing of these tensors was captured",
) -> go.Figure:
    """A row for each tensor in the order of the model, the first at the top; steps across.

    Magnitudes are drawn as powers of ten, so that a gradient that vanishes towards the input darkens row by row; a
    zero is darkest. What is absent or not finite is a gap.

    Args:
        found: As ``Digest.layers`` gives it.
        statistic: What it is, for the colour bar.
        is_log: None: unless the statistic is a ratio.
    """
    values = np.abs(np.asarray(found["values"], np.float64))
    values[~np.isfinite(values)] = np.nan
    if not values.size or np.isnan(values).all():
        return theme.empty(missing, title or f"{theme.plain(statistic, 40)} of each tensor")
    is_log = not any(each in statistic for each in _RATIOS) if is_log is None else is_log
    tensors = list(found["tensors"])
    values, names, together = _gathered(values, tensors)
    drawn, bar = _logarithms(values) if is_log else (values, {})
    spoken = theme.plain(statistic, 40)
    shown = theme.figure(title or f"{spoken} of each tensor", meta={"rows": tensors[::together]})
    shown.add_trace(
        go.Heatmap(
            x=np.asarray(found["steps"]),
            y=names,
            z=theme.numbers(drawn.round(2) if is_log else drawn),
            hoverongaps=False,
            colorscale=theme.MAGNITUDES,
            hovertemplate=f"%{{y}}<br>step %{{x:,}}: {'10^%{z:.1f}' if is_log else '%{z:.4g}'}<extra></extra>",
            colorbar={
                "title": {"text": f"{spoken}, log scale" if is_log else spoken, "side": "right"},
                "thickness": 12,
                "outlinewidth": 0,
                **bar,
            },
        )
    )
    if together > 1:
        theme.add_note(shown, f"{together} neighbours share a row")
    shown.update_yaxes(autorange="reversed", type="category", showgrid=False, nticks=40)
    shown.update_layout(height=min(1000, max(260, 110 + _ROW_PIXELS * len(names))))
    return theme.set_step_axis(shown)


def _gathered(values: Floats, names: list[str]) -> tuple[Floats, list[str], int]:
    """Rows put together with their neighbours where there are too many; the median stands for them."""
    together = -(-len(names) // _MOST_ROWS)
    if together == 1:
        return values, theme.labels(names), 1
    groups = [np.arange(at, min(at + together, len(names))) for at in range(0, len(names), together)]
    rows = np.stack([_middle(values[each]) for each in groups])
    labels = [names[each[0]] if len(each) == 1 else f"{names[each[0]]} … {names[each[-1]]}" for each in groups]
    return rows, theme.labels(labels), together


def _middle(rows: Floats) -> Floats:
    """The median of each column; NaN where all are."""
    is_known = ~np.isnan(rows).all(axis=0)
    found = np.full(rows.shape[1], np.nan)
    found[is_known] = np.nanmedian(rows[:, is_known], axis=0)
    return found


def _logarithms(values: Floats) -> tuple[Floats, dict[str, Any]]:
    """Powers of ten, a zero below the least of them, and the ticks of the colour bar."""
    is_zero = values == 0
    with np.errstate(divide="ignore"):
        drawn = np.log10(values)
    positive = drawn[np.isfinite(drawn)]
    low, high = (float(positive.min()), float(positive.max())) if positive.size else (0.0, 0.0)
    drawn[is_zero] = low - _ZERO
    every = max(1, round((high - low) / 6))
    powers = range(int(np.floor(low)), int(np.ceil(high)) + 1, every)
    ticks, words = [float(each) for each in powers], [f"1e{each}" for each in powers]
    if is_zero.any():
        zero = low - _ZERO
        above = [at for at, each in enumerate(ticks) if each > zero + _ZERO / 2]
        ticks, words = [zero, *(ticks[at] for at in above)], ["0", *(words[at] for at in above)]
    return drawn, {"tickvals": ticks, "ticktext": words}
