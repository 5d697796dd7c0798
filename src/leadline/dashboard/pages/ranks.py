"""Ranks page of a run: step times and phases by rank, stragglers, replicas."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.analysis.bucketed_time import ranks_of
from leadline.charts.step_charts import MAX_RANKS
from leadline.dashboard import rank_view
from leadline.dashboard.page import open_run, render


def ranks(request: Request) -> Response:
    """Serve ``/runs/{run}/ranks``: ``order``, ``page``, ``tensor``, ``statistic``."""
    parameters = request.query_params
    opened = open_run(request)
    with opened.lock:
        comparison = ranks_of(opened.digest)
        names = rank_view.replica_names(opened.digest)
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
        "max_charted": MAX_RANKS,
    }
    return render(request, "ranks.html", context, page="ranks")


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 10 else 1


def _statistic(names: list[str], requested: str | None) -> str | None:
    default = next((name for name in ("value", "abs_mean", "l2") if name in names), next(iter(names), None))
    return requested if requested in names else default


ROUTES: Final = [Route("/runs/{run}/ranks", ranks)]
