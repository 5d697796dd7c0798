"""The whole system at one glance: a row for every core and every GPU, time across."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.sensors import by_sensor
from leadline.figures import theme
from leadline.figures.usage import device_words
from leadline.reader.window import natural_sort_key

_METRIC: Final = "utilization_percent"
_KINDS: Final = ("cpu", "gpu")
_ROW_PIXELS: Final = 16
_MOST_ROWS: Final = 256


def heat_map(table: pa.Table, *, title: str = "Use of every core and GPU") -> go.Figure:
    """How much every core and every GPU was used over time, node by node, the first at the top.

    Args:
        table: As ``Digest.system`` gives it; only ``utilization_percent`` of cores and GPUs is drawn. Where nothing
            was measured there is a gap.
    """
    is_meant = pc.and_(pc.equal(table["metric"], _METRIC), pc.is_in(table["kind"], pa.array(_KINDS)))
    table = table.filter(pc.and_(is_meant, pc.not_equal(table["device"], "total")))
    if not table.num_rows:
        return theme.empty("neither cores nor GPUs were measured", title)
    sensors = sorted(
        by_sensor(table), key=lambda each: (natural_sort_key(each.node), each.kind, natural_sort_key(each.device))
    )
    times, places = np.unique(table["time_ns"].to_numpy(), return_inverse=True)
    mean = table["mean"].to_numpy()
    values = np.full((len(sensors), len(times)), np.nan)
    for at, each in enumerate(sensors):
        values[at, places[each.rows]] = mean[each.rows]
    rows = [(each.node, each.kind, each.device) for each in sensors]
    names = _names(rows)
    shown = theme.figure(title, meta={"rows": [list(each) for each in rows[:_MOST_ROWS]]})
    shown.add_trace(
        go.Heatmap(
            x=theme.moments(times),
            y=names[:_MOST_ROWS],
            z=_packed(values[:_MOST_ROWS]),
            zmin=0,
            zmax=100,
            zauto=False,
            colorscale=theme.USED,
            hoverongaps=False,
            hovertemplate="%{y}<br>%{x}<br>%{z:.0f} %<extra></extra>",
            colorbar={"title": {"text": "used (%)", "side": "right"}, "thickness": 12, "outlinewidth": 0},
        )
    )
    shown.update_yaxes(autorange="reversed", type="category", showgrid=False, nticks=40)
    shown.update_layout(height=min(900, max(240, 110 + _ROW_PIXELS * min(len(rows), _MOST_ROWS))))
    theme.left_out(shown, len(rows) - _MOST_ROWS, "devices")
    return theme.set_time_axis(shown)


def _names(rows: list[tuple[str, str, str]]) -> list[str]:
    several = len({node for node, _, _ in rows}) > 1
    return theme.labels(
        ((f"{node} " if several else "") + device_words(kind, device) for node, kind, device in rows), 40
    )


def _packed(values: Any) -> Any:
    """Per cent as bytes, 1 % fine, where there are no gaps; else as small floats."""
    values = np.where(np.isfinite(values), np.clip(values, 0, 255), np.nan)
    return np.round(values).astype(np.uint8) if not np.isnan(values).any() else values.round(1).astype(np.float32)
