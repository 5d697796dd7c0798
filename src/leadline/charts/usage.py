"""Charts of system metrics: over time, as distributions, as heat map and as box plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.histograms import MAX_MAGNITUDE, even_edges
from leadline.analysis.usage import Distribution, by_sensor
from leadline.charts import theme
from leadline.charts.units import Unit, metric_label, unit_of
from leadline.charts.value_axis import line_mode, with_gaps
from leadline.reader.window import natural_sort_key

_HEAT_MAP: Final = "Utilization of every core and GPU"
_ROW_PIXELS: Final = 16
_MAX_ROWS: Final = 256
_HEIGHT: Final = 320
_MAX_BOXES: Final = 64
_QUANTILES: Final = {
    "lowerfence": "p5",
    "q1": "p25",
    "median": "p50",
    "q3": "p75",
    "upperfence": "p95",
    "mean": "mean",
}


def usage(
    table: pa.Table, *, title: str = "", is_mean: bool = False, missing: str = "not measured on this node"
) -> go.Figure:
    """Draw metrics over time: a line for each series, and a min–max band where samples were aggregated.

    Args:
        table: From ``Digest.system``, of metrics of one unit.
        title: "": derived from the metric.
        is_mean: Draw the mean over all devices of a metric instead of one line per device.
        missing: Message if there are no rows.
    """
    table = mean_over_devices(table) if is_mean else table
    sensors = by_sensor(table)
    if not sensors:
        return theme.empty(missing, title)
    unit = _unit(table)
    fig = theme.figure(title or _title(sensors), yaxis_ticksuffix=unit.suffix)
    for index, (name, rows) in enumerate(_series(table, sensors)):
        _add(fig, index, name, rows, unit, has_band=len(sensors) <= theme.MAX_BANDS)
    if unit.name == "%" or unit.name.endswith("/s"):
        fig.update_yaxes(rangemode="tozero")
    return theme.set_series(theme.set_time_axis(fig), len(sensors))


def histogram(
    table: pa.Table, *, title: str = "", bins: int = 40, missing: str = "not measured on this node"
) -> go.Figure:
    """Draw the distribution of a metric: a histogram outline for each series, in percent of its samples.

    Args:
        table: As for ``usage``; means of aggregated samples are weighted by their sample count.
    """
    sensors = by_sensor(table)
    if not sensors:
        return theme.empty(missing, title)
    unit = _unit(table)
    values = table["mean"].to_numpy() * unit.factor
    values = values[np.abs(values) <= MAX_MAGNITUDE]  # no NaN is
    if not values.size:
        return theme.empty("no sample is finite", title)
    edges = even_edges(values.min(), values.max(), bins)
    fig = theme.figure(
        title or f"{_title(sensors)}: distribution",
        xaxis_ticksuffix=unit.suffix,
        y="share of samples (%)",
        height=_HEIGHT,
    )
    for index, (name, rows) in enumerate(_series(table, sensors)):
        counts, _ = np.histogram(rows["mean"] * unit.factor, bins=edges, weights=rows["samples"])
        shares = 100.0 * counts / max(counts.sum(), 1)
        theme.add_outline(fig, index, name, edges, shares, f"%{{x:.3~g}}{unit.suffix}: %{{y:.3~g}} %")
    theme.note_omitted(fig, len(sensors) - theme.MAX_SERIES, "series")
    return theme.set_legend(fig)


def mean_over_devices(table: pa.Table) -> pa.Table:
    """Return mean, minimum and maximum over all devices in each bucket; ``total`` is excluded."""
    devices = table.filter(pc.not_equal(table["device"], "total"))
    table = devices if devices.num_rows else table
    keys = ["node", "kind", "metric", "time_ns"]
    means = table.group_by(keys).aggregate([("mean", "mean"), ("min", "min"), ("max", "max"), ("samples", "sum")])
    means = means.select([*keys, "mean_mean", "min_min", "max_max", "samples_sum"])
    means = means.rename_columns([*keys, "mean", "min", "max", "samples"]).sort_by("time_ns")
    return means.append_column("device", pa.repeat(pa.scalar("mean", pa.string()), means.num_rows))


def _add(fig: go.Figure, index: int, name: str, rows: Mapping[str, Any], unit: Unit, *, has_band: bool) -> None:
    rows = with_gaps(rows, "time_ns")
    x = theme.epoch_ms(rows["time_ns"])
    if has_band and bool(np.any(rows["max"] > rows["min"])):
        low, high = (rows[key] * unit.factor for key in ("min", "max"))
        theme.add_band(fig, x, low, high, index=index, group=name)
    y = theme.float32(rows["mean"] * unit.factor)
    mode, hover = line_mode(y), theme.VALUE_ON_HOVER + unit.suffix
    theme.add_line(fig, index, name, x, y, hover, legendgroup=name, mode=mode)


def _series(table: pa.Table, sensors: Sequence[Any]) -> Iterator[tuple[str, dict[str, npt.NDArray[Any]]]]:
    """Yield the label and columns of each series that is drawn."""
    columns = {name: table[name].to_numpy() for name in ("time_ns", "mean", "min", "max", "samples")}
    for label, sensor in zip(_labels(sensors), sensors[: theme.MAX_SERIES], strict=False):
        yield theme.plain_text(label), {name: column[sensor.rows] for name, column in columns.items()}


def _unit(table: pa.Table) -> Unit:
    return unit_of(table["metric"][0].as_py(), pc.max(table["max"]).as_py() or 0.0)


def _title(sensors: Sequence[Any]) -> str:
    labels = list(dict.fromkeys(metric_label(sensor.kind, sensor.metric) for sensor in sensors))
    title = theme.plain_text(" and ".join(labels) if len(labels) < 3 else f"{labels[0]} and {len(labels) - 1} more")
    return title[:1].upper() + title[1:] + (", mean of all devices" if sensors[0].device == "mean" else "")


def _labels(sensors: Sequence[Any]) -> list[str]:
    """Return what distinguishes each sensor from the others: node, metric and device."""
    parts = [
        (sensor.node, metric_label(sensor.kind, sensor.metric), device_label(sensor.kind, sensor.device))
        for sensor in sensors
    ]
    keys = [(sensor.node, (sensor.kind, sensor.metric), sensor.device) for sensor in sensors]
    shown = theme.distinguish(keys) or [2]
    return [" ".join(part[index] for index in shown) for part in parts]


def device_label(kind: str, device: str) -> str:
    """Return ``core 3`` for a core, ``all cores`` for their total, ``GPU 0`` for a GPU."""
    if kind == "cpu":
        return "all cores" if device == "total" else device.replace("core", "core ", 1)
    return device.replace("gpu", "GPU ", 1) if kind == "gpu" else device


def heat_map(table: pa.Table) -> go.Figure:
    """Draw the utilization of every core and GPU over time, node by node, the first at the top.

    Args:
        table: From ``Digest.system``; only ``utilization_percent`` of cores and GPUs is drawn. Missing samples are
            gaps.
    """
    is_metric = pc.equal(table["metric"], "utilization_percent")
    is_device = pc.and_(pc.is_in(table["kind"], pa.array(["cpu", "gpu"])), pc.not_equal(table["device"], "total"))
    table = table.filter(pc.and_(is_metric, is_device))
    if not table.num_rows:
        return theme.empty("no CPU core or GPU was measured", _HEAT_MAP)
    sensors = sorted(
        by_sensor(table),
        key=lambda sensor: (natural_sort_key(sensor.node), sensor.kind, natural_sort_key(sensor.device)),
    )
    times, time_indices = np.unique(table["time_ns"].to_numpy(), return_inverse=True)
    mean = table["mean"].to_numpy()
    values = np.full((len(sensors), len(times)), np.nan)
    for row_index, sensor in enumerate(sensors):
        values[row_index, time_indices[sensor.rows]] = mean[sensor.rows]
    has_several_nodes = len({sensor.node for sensor in sensors}) > 1
    labels = [
        (f"{sensor.node} " if has_several_nodes else "")
        + f"{device_label(sensor.kind, sensor.device)}, mean {_mean(table, sensor.rows)}"
        for sensor in sensors
    ]
    rows = [[sensor.node, sensor.kind, sensor.device] for sensor in sensors[:_MAX_ROWS]]
    fig = theme.figure(_HEAT_MAP, meta={"rows": rows})
    theme.add_heat_map(
        fig,
        theme.epoch_ms(times),
        theme.unique_labels(labels, 40)[:_MAX_ROWS],
        _pack(values[:_MAX_ROWS]),
        "%{y}<br>%{x}<br>%{z:.0f} %",
        scale=theme.UTILIZATION_SCALE,
        title="%",
        zmin=0,
        zmax=100,
        zauto=False,
    )
    fig.update_yaxes(autorange="reversed", type="category", showgrid=False, nticks=40)
    if np.isnan(values).any():
        theme.add_note(fig, "grey: not measured")
    fig.update_layout(plot_bgcolor=theme.NOT_CAPTURED)
    fig.update_layout(height=min(900, max(240, 110 + _ROW_PIXELS * len(rows))))
    theme.note_omitted(fig, len(sensors) - _MAX_ROWS, "devices")
    return theme.set_time_axis(fig)


def _mean(table: pa.Table, rows: Any) -> str:
    """Return the mean utilization of a device: ``57 %``."""
    means, samples = (table[name].to_numpy()[rows] for name in ("mean", "samples"))
    is_finite = np.isfinite(means)
    return f"{np.average(means[is_finite], weights=samples[is_finite]):.0f} %" if is_finite.any() else "unknown"


def _pack(values: Any) -> Any:
    """Pack percentages as bytes with a resolution of 1 % if there are no gaps, else as float32."""
    values = np.where(np.isfinite(values), np.clip(values, 0, 255), np.nan)
    return np.round(values).astype(np.uint8) if not np.isnan(values).any() else values.round(1).astype(np.float32)


def boxes(distributions: Sequence[Distribution], *, title: str = "") -> go.Figure:
    """Draw a box for each sensor: quartiles, median, mean, and whiskers at the 5th and 95th percentile.

    Args:
        distributions: From ``analysis.usage``, of metrics of one unit.
    """
    if not distributions:
        return theme.empty("not measured on this node", title)
    unit = unit_of(distributions[0].metric, max(distribution.max for distribution in distributions))
    metrics = list(dict.fromkeys((distribution.kind, distribution.metric) for distribution in distributions))
    label = " and ".join(metric_label(*metric) for metric in metrics[:3])
    fig = theme.figure(title or theme.plain_text(label[:1].upper() + label[1:]), yaxis_ticksuffix=unit.suffix)
    names = theme.unique_labels(_labels(distributions)[:_MAX_BOXES], 40)
    for index, metric in enumerate(metrics):
        boxes_of_metric = [
            (name, distribution)
            for name, distribution in zip(names, distributions, strict=False)
            if (distribution.kind, distribution.metric) == metric
        ]
        columns = {
            key: theme.float32([getattr(distribution, name) * unit.factor for _, distribution in boxes_of_metric])
            for key, name in _QUANTILES.items()
        }
        fig.add_trace(
            go.Box(
                x=[name for name, _ in boxes_of_metric],
                **columns,
                name=theme.plain_text(metric_label(*metric)),
                boxmean=True,
                marker={"color": theme.series_colour(index)},
                line={"width": 1.2},
            )
        )
    theme.note_omitted(fig, len(distributions) - _MAX_BOXES, "devices")
    theme.add_note(fig, "whiskers: 5th and 95th percentile; dashed: mean")
    fig.update_xaxes(type="category")
    fig.update_yaxes(rangemode="tozero")
    return theme.set_legend(fig)
