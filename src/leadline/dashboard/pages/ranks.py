"""Ranks page of a run: step times and phases by rank, stragglers, replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.analysis.bucketed_time import points_for, ranks_of
from leadline.analysis.ranks import Ranks
from leadline.dashboard import rank_view
from leadline.dashboard.charts import Chart, ChartQuery
from leadline.dashboard.page import open_run, render
from leadline.dashboard.run_cache import OpenedRun

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_MAX_TENSORS: Final = 400


def ranks(request: Request) -> Response:
    """Serve ``/runs/{run}/ranks``: ``order``, ``page``, ``tensor``, ``statistic``."""
    parameters = request.query_params
    opened = open_run(request)
    with opened.lock:
        comparison = _comparison(opened)
        names = rank_view.replica_names(opened.digest, _MAX_TENSORS)
        page = comparison and rank_view.rank_page(
            opened.run, comparison, order=parameters.get("order", "slowest"), page=_number(parameters.get("page"))
        )
        workers = opened.digest.workers()
    tensor = parameters.get("tensor") if parameters.get("tensor") in names else next(iter(names), None)
    context: dict[str, Any] = {
        "ranks": comparison,
        "page_of_ranks": page,
        "workers": workers,
        "orders": rank_view.ORDERS,
        "names": names,
        "tensor": tensor,
        "statistic": _statistic(names.get(tensor or "", []), parameters.get("statistic")),
        "max_charted": rank_view.MAX_CHARTED,
    }
    return render(request, "ranks.html", context, page="ranks")


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 10 else 1


def _statistic(names: list[str], requested: str | None) -> str | None:
    default = next((name for name in ("value", "abs_mean", "l2") if name in names), next(iter(names), None))
    return requested if requested in names else default


def _comparison(opened: OpenedRun) -> Ranks | None:
    return ranks_of(opened.digest)


def rank_steps_chart(opened: OpenedRun, query: ChartQuery) -> Figure:
    """Draw the median step time of each rank."""
    from leadline.figures.ranks import step_times

    comparison = _comparison(opened)
    return step_times(comparison and rank_view.charted_ranks(comparison))


def rank_phases_chart(opened: OpenedRun, query: ChartQuery) -> Figure:
    """Draw the step phases of each rank."""
    from leadline.figures.ranks import phases

    comparison = _comparison(opened)
    return phases(comparison and rank_view.charted_ranks(comparison))


def rank_durations_chart(opened: OpenedRun, query: ChartQuery) -> Figure:
    """Draw the step times of some ranks over the training."""
    from leadline.figures.steps import durations

    comparison = _comparison(opened)
    workers = rank_view.charted_workers(opened.run, comparison) if comparison else [None]
    tables = [
        opened.digest.steps(
            worker=worker,
            mode="train",
            start_step=query.start_step,
            end_step=query.end_step,
            points=min(query.points, 400),
        )
        for worker in workers
    ]
    return durations(pa.concat_tables(tables), title="Training step time")


def replicas_chart(opened: OpenedRun, query: ChartQuery) -> Figure:
    """Draw one statistic of one tensor on all workers: ``tensor, statistic``."""
    from leadline.figures.scalars import scalars

    tensor, statistic = query.get("tensor") or "", query.get("statistic") or "value"
    table = opened.digest.statistic(
        tensor,
        statistic,
        mode="train",
        start_step=query.start_step,
        end_step=query.end_step,
        points=min(query.points, points_for(len(opened.digest.workers()))),
    )
    return scalars(table, y=statistic.replace("_", " "), missing="not captured by any worker in training steps")


ROUTES: Final = [Route("/runs/{run}/ranks", ranks)]
CHARTS: Final[dict[str, Chart]] = {
    "rank-steps": rank_steps_chart,
    "rank-phases": rank_phases_chart,
    "rank-durations": rank_durations_chart,
    "replicas": replicas_chart,
}
