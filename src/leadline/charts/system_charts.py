"""Catalog of charts: system metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import plotly.graph_objects as go
import pyarrow as pa

from leadline.analysis.usage import by_sensor
from leadline.charts import phases, theme, usage
from leadline.charts.chart import CatalogChart, ChartView, Moment, Names
from leadline.charts.theme import plain_text
from leadline.reader.run import Run
from leadline.store.run_state import read_nodes

_MAX_BUCKETS: Final = 4000
"""Number of buckets requested for distributions."""
_MAX_COLUMNS: Final = 500
DATA_IO: Final = ("read_bytes_per_second", "write_bytes_per_second")
"""What is read from disks and written to them."""
_NOUNS: Final = {"cpu": "CPU", "gpu": "GPU", "process": "processes"}
_LINKED_PROPERTIES: Final = ("range", "rangemode", "type", "ticksuffix")
_SPACE = 0.06
_ROW_PIXELS = 190


@CatalogChart
def metrics_over_time(
    view: ChartView,
    kind: Names = "cpu",
    metric: Names = "utilization_percent",
    devices: Names = None,
    *,
    node: str | None = None,
    is_mean: bool | None = None,
    title: str = "",
    start: Moment = None,
    end: Moment = None,
) -> go.Figure:
    """Draw system metrics of one unit over time.

    Args:
        kind: ``cpu``, ``gpu``, ``memory``, ``disk``, ``network`` or ``process``.
        metric: ``utilization_percent``, ``memory_used_percent``, ``received_bytes_per_second`` …
        devices: ``core3``, ``gpu0``, ``total`` …
        node: Only this node.
        is_mean: Whether to draw the mean of the devices; None: if there are more than twenty.
        title: "": derived from the metric.
        start, end: Bounds of the interval: steps (``120``), or times since the start of the run (``"90s"``).
    """
    table = view.between(start, end).system(kind, metric, devices, node)
    is_mean = len(by_sensor(table)) > theme.MAX_SERIES if is_mean is None else is_mean
    missing = why_missing(view.run, kind, node)
    return usage.usage(table, title=plain_text(title), is_mean=is_mean, missing=missing)


@CatalogChart
def metrics_histogram(
    view: ChartView,
    kind: Names = "cpu",
    metric: Names = "utilization_percent",
    devices: Names = None,
    *,
    node: str | None = None,
    title: str = "",
    start: Moment = None,
    end: Moment = None,
) -> go.Figure:
    """Draw the distribution of a system metric by device; same arguments as ``metrics_over_time``."""
    table = replace(view.between(start, end), points=_MAX_BUCKETS).system(kind, metric, devices, node)
    return usage.histogram(table, title=plain_text(title), missing=why_missing(view.run, kind, node))


@CatalogChart
def heat_map(view: ChartView, *, node: str | None = None, start: Moment = None, end: Moment = None) -> go.Figure:
    """Draw the utilization of every core and GPU over time, a row each."""
    view = view.between(start, end).at_most(_MAX_COLUMNS)
    return usage.heat_map(view.system(["cpu", "gpu"], "utilization_percent", None, node))


@CatalogChart
def system_metrics(view: ChartView, *, node: str | None = None, start: Moment = None, end: Moment = None) -> go.Figure:
    """Draw CPU, I/O wait, memory, GPU and GPU memory of a node, each as one line."""
    view = view.between(start, end)
    totals = view.system(["cpu", "memory"], ["utilization_percent", "iowait_percent", "used_percent"], "total", node)
    gpus = view.system("gpu", ["utilization_percent", "memory_used_percent"], None, node)
    means = usage.mean_over_devices(gpus).select(totals.column_names).cast(totals.schema)
    missing = why_missing(view.run, "cpu", node)
    return usage.usage(pa.concat_tables([totals, means]), title="System metrics", missing=missing)


@CatalogChart
def timeline_charts(view: ChartView, *, node: str | None = None, start: Moment = None, end: Moment = None) -> go.Figure:
    """Draw system metrics above the training phases on one time axis: zooming or panning one moves all.

    ``selection`` returns what ran in an interval.
    """
    view = view.between(start, end)
    gpus = view.system("gpu", "utilization_percent", None, node)
    missing = why_missing(view.run, "gpu", node)
    parts = [
        usage.usage(view.system("cpu", "utilization_percent", "total", node)),
        usage.usage(gpus, is_mean=len(by_sensor(gpus)) > theme.MAX_BANDS, missing=missing),
        usage.usage(view.system("memory", "used_percent", "total", node)),
        usage.usage(view.system("disk", DATA_IO, "total", node), title="Data I/O"),
        phases.over_time(view.at_most(300).steps()),
    ]
    return linked(parts, title="System metrics and training phases")


def why_missing(run: Run, kinds: Names, node: str | None) -> str:
    """Return why there are no system metrics: ``no GPU on this node``."""
    kind = kinds if isinstance(kinds, str) else next(iter(kinds or ()), "")
    documents = [document for document in read_nodes(run.path) if node in (None, document.node)]
    reason = next((document.absent[kind] for document in documents if kind in document.absent), "")
    if kind == "gpu":
        location = "on this node" if node or len(documents) == 1 else "on any node"
        return f"no GPU {location}" + (f" ({reason})" if reason else "")
    return f"{_NOUNS.get(kind, kind) or 'this'} not sampled" + (f": {reason}" if reason else " in this interval")


def linked(parts: Sequence[go.Figure], *, title: str = "", missing: str = "nothing was measured") -> go.Figure:
    """Stack charts over time on a shared axis: zooming or panning one moves all.

    Args:
        parts: From top to bottom; empty ones are omitted and their messages are shown as a note.
    """
    visible = [part for part in parts if part.data]
    if not visible:
        return theme.empty(missing, title)
    fig = theme.figure(title, barmode="stack", bargap=0, hovermode="x unified")
    height = (1.0 - _SPACE * (len(visible) - 1)) / len(visible)
    shown_names: set[str] = set()
    for index, part in enumerate(visible):
        top = 1.0 - index * (height + _SPACE)
        suffix = "" if index == 0 else str(index + 1)
        axis = {key: part.layout.yaxis[key] for key in _LINKED_PROPERTIES if part.layout.yaxis[key]}
        fig.update_layout(
            {
                f"yaxis{suffix}": {
                    **axis,
                    "domain": [max(0.0, top - height), top],
                    "title": {"text": part.layout.yaxis.title.text or part.layout.title.text},
                }
            }
        )
        for trace in part.data:
            has_legend = part.layout.showlegend and trace.showlegend is not False and trace.name not in shown_names
            shown_names |= {trace.name} if has_legend else set()
            fig.add_trace(trace).data[-1].update(
                yaxis=f"y{suffix}", xaxis="x", showlegend=bool(has_legend), legendgroup=trace.name
            )
    notes = [part.layout.meta["empty"] for part in parts if not part.data and part.layout.meta]
    notes += [note.text for part in visible for note in part.layout.annotations]
    if notes:
        theme.add_note(fig, theme.plain_text("; ".join(dict.fromkeys(notes)), 120))
    fig.update_layout(xaxis={"anchor": f"y{len(visible)}" if len(visible) > 1 else "y"})
    theme.set_legend(theme.set_time_axis(fig))
    return fig.update_layout(height=130 + _ROW_PIXELS * len(visible))
