"""How the machine was used, over time and as distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.histograms import MOST, even_edges
from leadline.analysis.sensors import by_sensor
from leadline.figures import theme
from leadline.figures.units import Unit, unit_of, words_of

if TYPE_CHECKING:
    import numpy.typing as npt

_KEYS: Final = ("node", "kind", "device", "metric")
_GAP: Final = 4.0
"""A pause of so many usual ones between samples is a gap."""


def usage(
    table: pa.Table, *, title: str = "", together: bool = False, missing: str = "not measured on this node"
) -> go.Figure:
    """Metrics over time: a line for each series, and a band from the least to the most where samples were put together.

    Args:
        table: As ``Digest.system`` gives it, of metrics of one unit.
        title: "": made from the metric.
        together: Draw the mean of all devices of a metric, instead of each by itself.
        missing: What is said where there are no rows.
    """
    series = _series(over_devices(table) if together else table)
    if not series:
        return theme.empty(missing, title)
    unit = _unit(table)
    shown = theme.figure(title or _title(series), y=unit.titled(_axis(series)))
    for place, (key, rows) in enumerate(series[: theme.MOST_SERIES]):
        _add(shown, place, _name(key, series), rows, unit, has_band=len(series) <= theme.MOST_BANDS)
    theme.left_out(shown, len(series) - theme.MOST_SERIES, "series")
    if unit.name == "%" or unit.name.endswith("/s"):
        shown.update_yaxes(rangemode="tozero")
    shown.update_layout(hovermode="x unified" if len(series) <= 10 else "closest")
    return theme.set_legend(theme.set_time_axis(shown))


def histogram(
    table: pa.Table, *, title: str = "", bins: int = 40, missing: str = "not measured on this node"
) -> go.Figure:
    """How often a metric had which value: a curve of steps for each series, in per cent of its samples.

    Args:
        table: As for ``usage``; where samples were put together, their means count as many times as they stand for.
    """
    series = _series(table)
    if not series:
        return theme.empty(missing, title)
    unit = _unit(table)
    values = table["mean"].to_numpy() * unit.factor
    values = values[np.abs(values) <= MOST]  # no NaN is
    if not values.size:
        return theme.empty("none of the samples is a finite number", title)
    edges = even_edges(values.min(), values.max(), bins)
    shown = theme.figure(
        title or f"{_title(series)}: distribution", x=unit.titled(_axis(series)), y="share of the samples (%)"
    )
    for place, (key, rows) in enumerate(series[: theme.MOST_SERIES]):
        counts, _ = np.histogram(rows["mean"] * unit.factor, bins=edges, weights=rows["samples"])
        shares = 100.0 * counts / max(counts.sum(), 1)
        add_outline(shown, edges, shares, name=_name(key, series), place=place)
    theme.left_out(shown, len(series) - theme.MOST_SERIES, "series")
    return theme.set_legend(shown)


def add_outline(
    shown: go.Figure, edges: Sequence[float] | npt.NDArray[Any], heights: npt.NDArray[Any], *, name: str, place: int
) -> None:
    """Add a histogram as one filled line, so that several can be seen through each other."""
    x = theme.numbers(np.repeat(np.asarray(edges, np.float64), 2))
    y = theme.numbers(np.concatenate([[0.0], np.repeat(heights, 2), [0.0]]))
    hue = theme.colour(place)
    shown.add_trace(
        go.Scatter(
            x=x,
            y=y,
            name=name,
            mode="lines",
            line={"color": hue, "width": 1.5, "dash": theme.dash(place)},
            fill="tozeroy",
            fillcolor=theme.faint(hue, 0.15),
            hovertemplate="%{x:.4g}: %{y:.3g}",
        )
    )


def over_devices(table: pa.Table) -> pa.Table:
    """The mean of all devices in each bucket, with the least and the most of any of them; ``total`` is left out."""
    single = table.filter(pc.not_equal(table["device"], "total"))
    table = single if single.num_rows else table
    keys = ["node", "kind", "metric", "time_ns"]
    found = table.group_by(keys).aggregate([("mean", "mean"), ("min", "min"), ("max", "max"), ("samples", "sum")])
    found = found.select([*keys, "mean_mean", "min_min", "max_max", "samples_sum"])
    found = found.rename_columns([*keys, "mean", "min", "max", "samples"]).sort_by("time_ns")
    return found.append_column("device", pa.repeat(pa.scalar("mean", pa.string()), found.num_rows))


def _add(shown: go.Figure, place: int, name: str, rows: Mapping[str, Any], unit: Unit, *, has_band: bool) -> None:
    rows = _with_gaps(rows)
    x, hue = theme.moments(rows["time_ns"]), theme.colour(place)
    if has_band and bool(np.any(rows["max"] > rows["min"])):
        low, high = (rows[each] * unit.factor for each in ("min", "max"))
        theme.add_band(shown, x, low, high, place=place, group=name)
    shown.add_trace(
        go.Scatter(
            x=x,
            y=theme.numbers(rows["mean"] * unit.factor),
            name=name,
            legendgroup=name,
            mode="lines" if len(x) > 1 else "markers",
            line={"color": hue, "width": 1.5, "dash": theme.dash(place)},
            hovertemplate="%{y:.3g}" + (f" {unit.name}" if unit.name else ""),
        )
    )


def _with_gaps(rows: Mapping[str, Any]) -> dict[str, Any]:
    """The same with a row without numbers in each gap, so that no line is drawn where nothing was measured."""
    times = rows["time_ns"]
    pauses = np.diff(times)
    at = np.flatnonzero(pauses > _GAP * np.median(pauses)) + 1 if len(times) > 2 else np.zeros(0, np.int64)
    found = {name: np.insert(np.asarray(rows[name], np.float64), at, np.nan) for name in ("mean", "min", "max")}
    return {**found, "time_ns": np.insert(times, at, times[at - 1] + 1 if at.size else 0)}


def _series(table: pa.Table) -> list[tuple[dict[str, str], dict[str, Any]]]:
    """Each series with its columns, in natural order of node, metric and device."""
    columns = {name: table[name].to_numpy() for name in ("time_ns", "mean", "min", "max", "samples")}
    return [
        (dict(zip(_KEYS, each[:4], strict=True)), {name: column[each.rows] for name, column in columns.items()})
        for each in by_sensor(table)
    ]


def _unit(table: pa.Table) -> Unit:
    return unit_of(table["metric"][0].as_py(), pc.max(table["max"]).as_py() or 0.0)


def _title(series: Sequence[tuple[Mapping[str, str], Any]]) -> str:
    words = list(dict.fromkeys(words_of(key["kind"], key["metric"]) for key, _ in series))
    spoken = theme.plain(" and ".join(words) if len(words) < 3 else f"{words[0]} and {len(words) - 1} more")
    return spoken[:1].upper() + spoken[1:] + (", mean of all devices" if series[0][0]["device"] == "mean" else "")


def _axis(series: Sequence[tuple[Mapping[str, str], Any]]) -> str:
    metrics = {key["metric"] for key, _ in series}
    if len(metrics) == 1:
        return theme.plain(words_of(series[0][0]["kind"], series[0][0]["metric"]))
    return "rate" if all(each.endswith("per_second") for each in metrics) else "use"


def _name(key: Mapping[str, str], series: Sequence[tuple[Mapping[str, str], Any]]) -> str:
    """What tells a series from the others."""
    parts = [key["node"]] if len({each["node"] for each, _ in series}) > 1 else []
    if len({(each["kind"], each["metric"]) for each, _ in series}) > 1:
        parts.append(words_of(key["kind"], key["metric"]))
    if len({each["device"] for each, _ in series}) > 1 or not parts:
        parts.append(device_words(key["kind"], key["device"]))
    return theme.plain(" ".join(parts))


def device_words(kind: str, device: str) -> str:
    """``core 3`` of a core, ``all cores`` of all, ``GPU 0`` of a GPU."""
    if kind == "cpu":
        return "all cores" if device == "total" else device.replace("core", "core ", 1)
    return device.replace("gpu", "GPU ", 1) if kind == "gpu" else device
