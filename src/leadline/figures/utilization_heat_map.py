"""Utilization heat map: a row for every core and GPU, time across."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.sensors import by_sensor
from leadline.figures import theme
from leadline.figures.usage import device_label
from leadline.reader.window import natural_sort_key

_METRIC: Final = "utilization_percent"
_KINDS: Final = ("cpu", "gpu")
_ROW_PIXELS: Final = 16
_MAX_ROWS: Final = 256


def heat_map(table: pa.Table, *, title: str = "Utilization of every core and GPU") -> go.Figure:
    """Draw the utilization of every core and GPU over time, node by node, the first at the top.

    Args:
        table: From ``Digest.system``; only ``utilization_percent`` of cores and GPUs is drawn. Missing samples are
            gaps.
    """
    is_utilization = pc.and_(pc.equal(table["metric"], _METRIC), pc.is_in(table["kind"], pa.array(_KINDS)))
    table = table.filter(pc.and_(is_utilization, pc.not_equal(table["device"], "total")))
    if not table.num_rows:
        return theme.empty("no CPU core or GPU was measured", title)
    sensors = sorted(
        by_sensor(table),
        key=lambda sensor: (natural_sort_key(sensor.node), sensor.kind, natural_sort_key(sensor.device)),
    )
    times, time_indices = np.unique(table["time_ns"].to_numpy(), return_inverse=True)
    mean = table["mean"].to_numpy()
    values = np.full((len(sensors), len(times)), np.nan)
    for row_index, sensor in enumerate(sensors):
        values[row_index, time_indices[sensor.rows]] = mean[sensor.rows]
    rows = [(sensor.node, sensor.kind, sensor.device) for sensor in sensors]
    names = _names(rows)
    fig = theme.figure(title, meta={"rows": [list(row) for row in rows[:_MAX_ROWS]]})
    fig.add_trace(
        go.Heatmap(
            x=theme.epoch_ms(times),
            y=names[:_MAX_ROWS],
            z=_pack(values[:_MAX_ROWS]),
            zmin=0,
            zmax=100,
            zauto=False,
            colorscale=theme.UTILIZATION_SCALE,
            hoverongaps=False,
            hovertemplate="%{y}<br>%{x}<br>%{z:.0f} %<extra></extra>",
            colorbar={"title": {"text": "utilization (%)", "side": "right"}, "thickness": 12, "outlinewidth": 0},
        )
    )
    fig.update_yaxes(autorange="reversed", type="category", showgrid=False, nticks=40)
    fig.update_layout(height=min(900, max(240, 110 + _ROW_PIXELS * min(len(rows), _MAX_ROWS))))
    theme.note_omitted(fig, len(rows) - _MAX_ROWS, "devices")
    return theme.set_time_axis(fig)


def _names(rows: list[tuple[str, str, str]]) -> list[str]:
    has_several_nodes = len({node for node, _, _ in rows}) > 1
    return theme.unique_labels(
        ((f"{node} " if has_several_nodes else "") + device_label(kind, device) for node, kind, device in rows), 40
    )


def _pack(values: Any) -> Any:
    """Pack percentages as bytes with a resolution of 1 % if there are no gaps, else as float32."""
    values = np.where(np.isfinite(values), np.clip(values, 0, 255), np.nan)
    return np.round(values).astype(np.uint8) if not np.isnan(values).any() else values.round(1).astype(np.float32)
