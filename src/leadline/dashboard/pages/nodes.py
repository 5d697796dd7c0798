"""Nodes page of a run: system metrics of each node above the training phases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.analysis.bucketed_time import points_for
from leadline.dashboard import node_view
from leadline.dashboard.charts import Chart, ChartQuery
from leadline.dashboard.page import open_run, render
from leadline.dashboard.query_parameters import parse_integer
from leadline.dashboard.run_cache import OpenedRun
from leadline.reader.window import natural_sort_key
from leadline.records.names import JOB_ENDED

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_MAX_COLUMNS: Final = 500
_MAX_TRACKED_STEPS: Final = 400
"""Up to this many steps of a worker are drawn as tracks, more as shares."""
_LAST_STEPS: Final = (30, 100, 300)
"""Selectable numbers of last steps."""


def nodes(request: Request) -> Response:
    """Serve ``/runs/{run}/nodes``."""
    opened = open_run(request)
    with opened.lock:
        views = node_view.node_views(opened.run, opened.digest)
        context = {
            "nodes": views,
            "node": node_view.chosen(views, request.query_params.get("node")),
            "last": _LAST_STEPS,
            "workers": opened.digest.workers(),
            "is_over": opened.run.status in JOB_ENDED,
            "span_ns": opened.digest.span_ns(),
            "progress": opened.digest.progress,
        }
    return render(request, "nodes.html", context, page="nodes")


def usage_chart(opened: OpenedRun, query: ChartQuery) -> Figure:
    """Draw metrics of one unit over time: ``kind, metric, node, device`` (comma-separated)``, together, title``."""
    from leadline.figures.usage import usage

    kinds, metrics, devices = (_split(query.get(key)) for key in ("kind", "metric", "device"))
    node = query.get("node")
    table = opened.digest.system(
        kind=kinds,
        metric=metrics,
        device=devices,
        node=node,
        start_ns=query.start_ns,
        end_ns=query.end_ns,
        points=query.points,
    )
    return usage(
        table,
        title=node_view.TITLES.get(query.get("title") or "", ""),
        is_mean=bool(query.get("together")),
        missing=node_view.why_missing(opened.run, kinds, node),
    )


def machine_chart(opened: OpenedRun, query: ChartQuery) -> Figure:
    """Draw CPU, memory, GPU and GPU memory of a node, each as one line: ``node``."""
    from leadline.figures.usage import mean_over_devices, usage

    interval: dict[str, Any] = {"start_ns": query.start_ns, "end_ns": query.end_ns, "points": query.points}
    node = query.get("node")
    totals = opened.digest.system(
        kind=["cpu", "memory"], metric=["utilization_percent", "used_percent"], device="total", node=node, **interval
    )
    gpus = opened.digest.system(
        kind="gpu", metric=["utilization_percent", "memory_used_percent"], node=node, **interval
    )
    parts = (
        [totals, mean_over_devices(gpus).select(totals.column_names).cast(totals.schema)] if gpus.num_rows else [totals]
    )
    table = pa.concat_tables(parts)
    return usage(table, title="System metrics", missing=node_view.why_missing(opened.run, ["cpu"], node))


def _split(text: str | None) -> list[str] | None:
    return [item for item in text.split(",") if item] or None if text else None


def heat_map_chart(opened: OpenedRun, query: ChartQuery) -> Figure:
    """Draw the utilization of every core and GPU of a node, or of all nodes."""
    from leadline.figures.utilization_heat_map import heat_map

    table = opened.digest.system(
        kind=["cpu", "gpu"],
        metric="utilization_percent",
        node=query.get("node"),
        start_ns=query.start_ns,
        end_ns=query.end_ns,
        points=min(query.points, _MAX_COLUMNS),
    )
    return heat_map(table)


def training_chart(opened: OpenedRun, query: ChartQuery) -> Figure:
    """Draw the training phases over time, few steps as tracks, many as shares: ``worker``."""
    from leadline.figures.phases import over_time, tracks

    start, end, worker = query.start_ns, query.end_ns, query.get("worker")
    points = min(query.points, points_for(1 if worker else len(opened.digest.workers())))
    table = opened.digest.steps(worker=worker, start_ns=start, end_ns=end, points=points)
    if not table.num_rows:
        return over_time(table, missing="no step was timed in this interval")
    worker_drawn = worker or min(pc.unique(table["worker"]).to_pylist(), key=natural_sort_key)
    rows = table.filter(pc.equal(table["worker"], worker_drawn))
    if pc.sum(rows["count"]).as_py() > _MAX_TRACKED_STEPS:
        return over_time(table)
    first, last = (start, end) if start is not None else opened.digest.span_ns()
    return tracks(
        opened.digest.timeline(worker_drawn, first, last if last is not None else opened.digest.span_ns()[1] + 1)
    )


def step_timeline_chart(opened: OpenedRun, query: ChartQuery) -> Figure:
    """Draw the phases of the last steps: ``last`` (30), ``worker``."""
    from leadline.figures.steps import timeline

    requested = parse_integer(query.get("last"))
    last = _LAST_STEPS[0] if requested is None else min(requested, max(_LAST_STEPS))
    worker = query.get("worker") or next(iter(opened.digest.workers()), None)
    extent = opened.digest.steps(worker=worker, points=2)
    if not extent.num_rows:
        return timeline(extent)
    end = pc.max(extent["end_step"]).as_py()
    if query.end_step is not None:
        end = min(end, query.end_step)
    table = opened.digest.steps(worker=worker, start_step=max(0, end - last), end_step=end, points=2 * last)
    return timeline(table, last=last)


def step_durations_chart(opened: OpenedRun, query: ChartQuery) -> Figure:
    """Draw step times: ``worker``."""
    from leadline.figures.steps import durations

    worker = query.get("worker")
    points = min(query.points, points_for(1 if worker else len(opened.digest.workers())))
    table = opened.digest.steps(worker=worker, start_step=query.start_step, end_step=query.end_step, points=points)
    return durations(table)


def step_histogram_chart(opened: OpenedRun, query: ChartQuery) -> Figure:
    """Draw the distribution of step times: ``worker``."""
    from leadline.figures.steps import histogram

    return histogram(opened.digest.step_durations(worker=query.get("worker")))


ROUTES: Final = [Route("/runs/{run}/nodes", nodes)]
CHARTS: Final[dict[str, Chart]] = {
    "usage": usage_chart,
    "machine": machine_chart,
    "heat-map": heat_map_chart,
    "training": training_chart,
    "step-timeline": step_timeline_chart,
    "step-durations": step_durations_chart,
    "step-histogram": step_histogram_chart,
}
