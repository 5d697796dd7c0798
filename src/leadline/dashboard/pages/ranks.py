"""The page Ranks of a run: its workers side by side, and which one makes the others wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.analysis.bucketed_time import points_for, ranks_of
from leadline.analysis.ranks import Ranks
from leadline.dashboard import rank_view
from leadline.dashboard.charts import Chart, Question
from leadline.dashboard.page import opened, render
from leadline.dashboard.run_cache import OpenedRun

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_MOST_TENSORS: Final = 400


def ranks(request: Request) -> Response:
    """``/runs/{run}/ranks``: ``order``, ``page``, ``tensor``, ``statistic``."""
    query = request.query_params
    found = opened(request)
    with found.lock:
        compared = _compared(found)
        names = rank_view.replica_names(found.digest, _MOST_TENSORS)
        page = compared and rank_view.rank_page(
            found.run, compared, order=query.get("order", "slowest"), page=_number(query.get("page"))
        )
        workers = found.digest.workers()
    tensor = query.get("tensor") if query.get("tensor") in names else next(iter(names), None)
    said: dict[str, Any] = {
        "ranks": compared,
        "page_of_ranks": page,
        "workers": workers,
        "orders": rank_view.ORDERS,
        "names": names,
        "tensor": tensor,
        "statistic": _statistic(names.get(tensor or "", []), query.get("statistic")),
        "most_drawn": rank_view.MOST_DRAWN,
    }
    return render(request, "ranks.html", said, page="ranks")


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 10 else 1


def _statistic(names: list[str], wanted: str | None) -> str | None:
    usual = next((each for each in ("value", "abs_mean", "l2") if each in names), next(iter(names), None))
    return wanted if wanted in names else usual


def _compared(found: OpenedRun) -> Ranks | None:
    return ranks_of(found.digest)


def rank_steps_chart(found: OpenedRun, question: Question) -> Figure:
    """The median step of each rank."""
    from leadline.figures.ranks import step_times

    compared = _compared(found)
    return step_times(compared and rank_view.drawn(compared))


def rank_phases_chart(found: OpenedRun, question: Question) -> Figure:
    """What a step is made of on each rank."""
    from leadline.figures.ranks import phases

    compared = _compared(found)
    return phases(compared and rank_view.drawn(compared))


def rank_durations_chart(found: OpenedRun, question: Question) -> Figure:
    """Steps over the training, of some ranks."""
    from leadline.figures.steps import durations

    compared = _compared(found)
    workers = rank_view.drawn_workers(found.run, compared) if compared else [None]
    tables = [
        found.digest.steps(
            worker=each,
            mode="train",
            start_step=question.start_step,
            end_step=question.end_step,
            points=min(question.points, 400),
        )
        for each in workers
    ]
    return durations(pa.concat_tables(tables), title="Time of each training step")


def replicas_chart(found: OpenedRun, question: Question) -> Figure:
    """One statistic of one tensor in all workers: ``tensor, statistic``."""
    from leadline.figures.scalars import scalars

    tensor, statistic = question.get("tensor") or "", question.get("statistic") or "value"
    table = found.digest.statistic(
        tensor,
        statistic,
        mode="train",
        start_step=question.start_step,
        end_step=question.end_step,
        points=min(question.points, points_for(len(found.digest.workers()))),
    )
    return scalars(table, y=statistic.replace("_", " "), missing="no worker captured it in training")


ROUTES: Final = [Route("/runs/{run}/ranks", ranks)]
CHARTS: Final[dict[str, Chart]] = {
    "rank-steps": rank_steps_chart,
    "rank-phases": rank_phases_chart,
    "rank-durations": rank_durations_chart,
    "replicas": replicas_chart,
}
