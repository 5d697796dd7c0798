"""Charts of system metrics over time and their distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.histograms import MAX_MAGNITUDE, even_edges
from leadline.analysis.sensors import by_sensor
from leadline.figures import theme
from leadline.figures.units import Unit, metric_label, unit_of

if TYPE_CHECKING:
    import numpy.typing as npt

_KEYS: Final = ("node", "kind", "device", "metric")
_GAP: Final = 4.0
"""A pause longer than this many median intervals between samples is a gap."""


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
    series = _series(mean_over_devices(table) if is_mean else table)
    if not series:
        return theme.empty(missing, title)
    unit = _unit(table)
    fig = theme.figure(title or _title(series), y=unit.axis_title(_axis_label(series)))
    for index, (key, rows) in enumerate(series[: theme.MAX_SERIES]):
        _add(fig, index, _name(key, series), rows, unit, has_band=len(series) <= theme.MAX_BANDS)
    theme.note_omitted(fig, len(series) - theme.MAX_SERIES, "series")
    if unit.name == "%" or unit.name.endswith("/s"):
        fig.update_yaxes(rangemode="tozero")
    fig.update_layout(hovermode="x unified" if len(series) <= 10 else "closest")
    return theme.set_legend(theme.set_time_axis(fig))


def histogram(
    table: pa.Table, *, title: str = "", bins: int = 40, missing: str = "not measured on this node"
) -> go.Figure:
    """Draw the distribution of a metric: a histogram outline for each series, in percent of its samples.

    Args:
        table: As for ``usage``; means of aggregated samples are weighted by their sample count.
    """
    series = _series(table)
    if not series:
        return theme.empty(missing, title)
    unit = _unit(table)
    values = table["mean"].to_numpy() * unit.factor
    values = values[np.abs(values) <= MAX_MAGNITUDE]  # no NaN is
    if not values.size:
        return theme.empty("no sample is finite", title)
    edges = even_edges(values.min(), values.max(), bins)
    fig = theme.figure(
        title or f"{_title(series)}: distribution", x=unit.axis_title(_axis_label(series)), y="share of samples (%)"
    )
    for index, (key, rows) in enumerate(series[: theme.MAX_SERIES]):
        counts, _ = np.histogram(rows["mean"] * unit.factor, bins=edges, weights=rows["samples"])
        shares = 100.0 * counts / max(counts.sum(), 1)
        add_histogram_outline(fig, edges, shares, name=_name(key, series), index=index)
    theme.note_omitted(fig, len(series) - theme.MAX_SERIES, "series")
    return theme.set_legend(fig)


def add_histogram_outline(
    fig: go.Figure, edges: Sequence[float] | npt.NDArray[Any], heights: npt.NDArray[Any], *, name: str, index: int
) -> None:
    """Add a histogram as one translucent filled outline, so that several can overlap."""
    x = theme.float32(np.repeat(np.asarray(edges, np.float64), 2))
    y = theme.float32(np.concatenate([[0.0], np.repeat(heights, 2), [0.0]]))
    colour = theme.series_colour(index)
    fig.add_trace(
        go.Scatter(
            x=x,
            y=y,
            name=name,
            mode="lines",
            line={"color": colour, "width": 1.5, "dash": theme.series_dash(index)},
            fill="tozeroy",
            fillcolor=theme.translucent(colour, 0.15),
            hovertemplate="%{x:.4g}: %{y:.3g}",
        )
    )


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
    rows = _insert_gaps(rows)
    x, colour = theme.epoch_ms(rows["time_ns"]), theme.series_colour(index)
    if has_band and bool(np.any(rows["max"] > rows["min"])):
        low, high = (rows[key] * unit.factor for key in ("min", "max"))
        theme.add_band(fig, x, low, high, index=index, group=name)
    fig.add_trace(
        go.Scatter(
            x=x,
            y=theme.float32(rows["mean"] * unit.factor),
            name=name,
            legendgroup=name,
            mode="lines" if len(x) > 1 else "markers",
            line={"color": colour, "width": 1.5, "dash": theme.series_dash(index)},
            hovertemplate="%{y:.3g}" + (f" {unit.name}" if unit.name else ""),
        )
    )


def _insert_gaps(rows: Mapping[str, Any]) -> dict[str, Any]:
    """Insert a NaN row into each gap, so that no line is drawn where nothing was measured."""
    times = rows["time_ns"]
    pauses = np.diff(times)
    gaps = np.flatnonzero(pauses > _GAP * np.median(pauses)) + 1 if len(times) > 2 else np.zeros(0, np.int64)
    columns = {name: np.insert(np.asarray(rows[name], np.float64), gaps, np.nan) for name in ("mean", "min", "max")}
    return {**columns, "time_ns": np.insert(times, gaps, times[gaps - 1] + 1 if gaps.size else 0)}


def _series(table: pa.Table) -> list[tuple[dict[str, str], dict[str, Any]]]:
    """Return each series with its columns, in natural order of node, metric and device."""
    columns = {name: table[name].to_numpy() for name in ("time_ns", "mean", "min", "max", "samples")}
    return [
        (dict(zip(_KEYS, sensor[:4], strict=True)), {name: column[sensor.rows] for name, column in columns.items()})
        for sensor in by_sensor(table)
    ]


def _unit(table: pa.Table) -> Unit:
    return unit_of(table["metric"][0].as_py(), pc.max(table["max"]).as_py() or 0.0)


def _title(series: Sequence[tuple[Mapping[str, str], Any]]) -> str:
    labels = list(dict.fromkeys(metric_label(key["kind"], key["metric"]) for key, _ in series))
    title = theme.plain_text(" and ".join(labels) if len(labels) < 3 else f"{labels[0]} and {len(labels) - 1} more")
    return title[:1].upper() + title[1:] + (", mean of all devices" if series[0][0]["device"] == "mean" else "")


def _axis_label(series: Sequence[tuple[Mapping[str, str], Any]]) -> str:
    metrics = {key["metric"] for key, _ in series}
    if len(metrics) == 1:
        return theme.plain_text(metric_label(series[0][0]["kind"], series[0][0]["metric"]))
    return "rate" if all(metric.endswith("per_second") for metric in metrics) else "utilization"


def _name(key: Mapping[str, str], series: Sequence[tuple[Mapping[str, str], Any]]) -> str:
    """Return a label that distinguishes a series from the others."""
    parts = [key["node"]] if len({key["node"] for key, _ in series}) > 1 else []
    if len({(key["kind"], key["metric"]) for key, _ in series}) > 1:
        parts.append(metric_label(key["kind"], key["metric"]))
    if len({key["device"] for key, _ in series}) > 1 or not parts:
        parts.append(device_label(key["kind"], key["device"]))
    return theme.plain_text(" ".join(parts))


def device_label(kind: str, device: str) -> str:
    """Return ``core 3`` for a core, ``all cores`` for their total, ``GPU 0`` for a GPU."""
    if kind == "cpu":
        return "all cores" if device == "total" else device.replace("core", "core ", 1)
    return device.replace("gpu", "GPU ", 1) if kind == "gpu" else device
