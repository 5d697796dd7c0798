"""The page Nodes of a run: how each machine was used, above what the training did meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.analysis.bucketed_time import points_for
from leadline.dashboard import node_view
from leadline.dashboard.charts import Chart, Question
from leadline.dashboard.page import opened, render
from leadline.dashboard.query_parameters import whole_number
from leadline.dashboard.run_cache import OpenedRun
from leadline.reader.window import natural_sort_key
from leadline.records.names import JOB_ENDED

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_MOST_COLUMNS: Final = 500
_FEW_STEPS: Final = 400
"""So many steps of a worker are drawn phase by phase, more of them as shares."""
_LAST: Final = (30, 100, 300)
"""How many of the last steps may be looked at."""


def nodes(request: Request) -> Response:
    """``/runs/{run}/nodes``."""
    found = opened(request)
    with found.lock:
        views = node_view.node_views(found.run, found.digest)
        said = {
            "nodes": views,
            "node": node_view.chosen(views, request.query_params.get("node")),
            "last": _LAST,
            "workers": found.digest.workers(),
            "is_over": found.run.status in JOB_ENDED,
            "span_ns": found.digest.span_ns(),
            "progress": found.digest.progress,
        }
    return render(request, "nodes.html", said, page="nodes")


def usage_chart(found: OpenedRun, question: Question) -> Figure:
    """Metrics of one unit over time: ``kind, metric, node, device`` (several by commas)``, together, title``."""
    from leadline.figures.usage import usage

    kinds, metrics, devices = (_listed(question.get(key)) for key in ("kind", "metric", "device"))
    node = question.get("node")
    table = found.digest.system(
        kind=kinds,
        metric=metrics,
        device=devices,
        node=node,
        start_ns=question.start_ns,
        end_ns=question.end_ns,
        points=question.points,
    )
    return usage(
        table,
        title=node_view.TITLES.get(question.get("title") or "", ""),
        together=bool(question.get("together")),
        missing=node_view.why_missing(found.run, kinds, node),
    )


def machine_chart(found: OpenedRun, question: Question) -> Figure:
    """CPU, memory, GPU and GPU memory of a node, each as one line: ``node``."""
    from leadline.figures.usage import over_devices, usage

    interval: dict[str, Any] = {"start_ns": question.start_ns, "end_ns": question.end_ns, "points": question.points}
    node = question.get("node")
    alone = found.digest.system(
        kind=["cpu", "memory"], metric=["utilization_percent", "used_percent"], device="total", node=node, **interval
    )
    gpus = found.digest.system(kind="gpu", metric=["utilization_percent", "memory_used_percent"], node=node, **interval)
    parts = [alone, over_devices(gpus).select(alone.column_names).cast(alone.schema)] if gpus.num_rows else [alone]
    table = pa.concat_tables(parts)
    return usage(table, title="The machine", missing=node_view.why_missing(found.run, ["cpu"], node))


def _listed(text: str | None) -> list[str] | None:
    return [each for each in text.split(",") if each] or None if text else None


def heat_map_chart(found: OpenedRun, question: Question) -> Figure:
    """Every core and GPU of a node, or of all."""
    from leadline.figures.utilization_heat_map import heat_map

    table = found.digest.system(
        kind=["cpu", "gpu"],
        metric="utilization_percent",
        node=question.get("node"),
        start_ns=question.start_ns,
        end_ns=question.end_ns,
        points=min(question.points, _MOST_COLUMNS),
    )
    return heat_map(table)


def training_chart(found: OpenedRun, question: Question) -> Figure:
    """What the training did over time: of few steps each phase in its lane, of many their shares: ``worker``."""
    from leadline.figures.phases import lanes, over_time

    start, end, worker = question.start_ns, question.end_ns, question.get("worker")
    points = min(question.points, points_for(1 if worker else len(found.digest.workers())))
    table = found.digest.steps(worker=worker, start_ns=start, end_ns=end, points=points)
    if not table.num_rows:
        return over_time(table, missing="no step was timed in this interval")
    one = worker or min(pc.unique(table["worker"]).to_pylist(), key=natural_sort_key)
    of_one = table.filter(pc.equal(table["worker"], one))
    if pc.sum(of_one["count"]).as_py() > _FEW_STEPS:
        return over_time(table)
    first, last = (start, end) if start is not None else found.digest.span_ns()
    return lanes(found.digest.timeline(one, first, last if last is not None else found.digest.span_ns()[1] + 1))


def step_timeline_chart(found: OpenedRun, question: Question) -> Figure:
    """The phases of the last steps: ``last`` (30), ``worker``."""
    from leadline.figures.steps import timeline

    told = whole_number(question.get("last"))
    last = _LAST[0] if told is None else min(told, max(_LAST))
    worker = question.get("worker") or next(iter(found.digest.workers()), None)
    whole = found.digest.steps(worker=worker, points=2)
    if not whole.num_rows:
        return timeline(whole)
    end = pc.max(whole["end_step"]).as_py()
    if question.end_step is not None:
        end = min(end, question.end_step)
    table = found.digest.steps(worker=worker, start_step=max(0, end - last), end_step=end, points=2 * last)
    return timeline(table, last=last)


def step_durations_chart(found: OpenedRun, question: Question) -> Figure:
    """How long steps took: ``worker``."""
    from leadline.figures.steps import durations

    worker = question.get("worker")
    points = min(question.points, points_for(1 if worker else len(found.digest.workers())))
    table = found.digest.steps(worker=worker, start_step=question.start_step, end_step=question.end_step, points=points)
    return durations(table)


def step_histogram_chart(found: OpenedRun, question: Question) -> Figure:
    """How often a step took how long: ``worker``."""
    from leadline.figures.steps import histogram

    return histogram(found.digest.step_durations(worker=question.get("worker")))


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
