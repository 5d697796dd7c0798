"""Ranks page of a run: step times and phases by rank, stragglers, replicas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from leadline.analysis.bucketed_time import ranks_of
from leadline.analysis.digest import Digest
from leadline.analysis.ranks import Ranks
from leadline.charts.step_charts import MAX_RANKS, documents_by_rank, slowest_first
from leadline.dashboard.page import open_run, render
from leadline.dashboard.query import parse_integer
from leadline.reader.run import Run
from leadline.reader.window import natural_sort_key
from leadline.records.names import PARTS

PAGE_ROWS: Final = 50
"""Ranks on a page of the table."""
ORDERS: Final = {"slowest": "slowest first", "quickest": "fastest first", "rank": "by rank"}


def ranks(request: Request) -> Response:
    """Serve ``/runs/{run}/ranks``: ``order``, ``page``, ``tensor``, ``statistic``."""
    parameters = request.query_params
    opened = open_run(request)
    with opened.lock:
        comparison = ranks_of(opened.digest)
        names = replica_names(opened.digest)
        page = comparison and rank_page(
            opened.run,
            comparison,
            order=parameters.get("order", "slowest"),
            page=parse_integer(parameters.get("page")) or 1,
        )
        workers = opened.digest.workers()
    tensor = parameters.get("tensor") if parameters.get("tensor") in names else next(iter(names), None)
    context: dict[str, object] = {
        "ranks": comparison,
        "page_of_ranks": page,
        "workers": workers,
        "orders": ORDERS,
        "names": names,
        "tensor": tensor,
        "statistic": _statistic(names.get(tensor or "", []), parameters.get("statistic")),
        "max_charted": MAX_RANKS,
    }
    return render(request, "ranks.html", context, page="ranks")


def _statistic(names: list[str], requested: str | None) -> str | None:
    default = next((name for name in ("value", "abs_mean", "l2") if name in names), next(iter(names), None))
    return requested if requested in names else default


@dataclass(frozen=True, slots=True)
class RankRow:
    """A rank compared with the others.

    Units:
        Milliseconds per step, medians.
    """

    rank: int
    worker: str
    node: str
    step_ms: float
    excess_ms: float
    """Time outside collectives above that of the median rank."""
    parts: tuple[float, ...]
    is_straggler: bool


@dataclass(frozen=True, slots=True)
class RankPage:
    """A page of the table of ranks."""

    rows: tuple[RankRow, ...]
    parts: tuple[str, ...]
    """Phases that occur on any rank."""
    page: int
    pages: int
    order: str


def rank_page(run: Run, ranks: Ranks, *, order: str, page: int) -> RankPage:
    """Return one page of the ranks in an order."""
    parts = tuple(part for part in PARTS if any(times.get(part, 0.0) > 0 for times in ranks.by_rank.values()))
    ordered_ranks = _ordered(ranks, order)
    pages = max(1, -(-len(ordered_ranks) // PAGE_ROWS))
    page = min(max(page, 1), pages)
    documents = documents_by_rank(run)
    straggler = ranks.straggler.rank if ranks.straggler else None
    rows = tuple(
        RankRow(
            rank,
            *documents.get(rank, ("", "")),
            times["step"],
            ranks.behind_ms(rank),
            tuple(times.get(part, 0.0) for part in parts),
            rank == straggler,
        )
        for rank in ordered_ranks[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
        for times in (ranks.by_rank[rank],)
    )
    return RankPage(rows, parts, page, pages, order if order in ORDERS else "slowest")


def replica_names(digest: Digest, limit: int = 400) -> dict[str, list[str]]:
    """Return the statistics by tensor, for tensors captured by several workers; weights first, then scalars."""
    statistics_by_tensor: dict[str, list[str]] = {}
    for tensor, statistics in digest.captured().items():
        shared = sorted(statistic for statistic, workers in statistics.items() if len(workers) > 1)
        if shared:
            statistics_by_tensor[tensor] = shared
    infos = digest.infos()
    ordered = sorted(
        statistics_by_tensor,
        key=lambda name: (
            name not in infos or "weights" not in infos[name].collections,
            "value" not in statistics_by_tensor[name],
            natural_sort_key(name),
        ),
    )
    return {name: statistics_by_tensor[name] for name in ordered[:limit]}


def _ordered(ranks: Ranks, order: str) -> list[int]:
    if order == "rank":
        return sorted(ranks.by_rank)
    if order == "quickest":
        return slowest_first(ranks)[::-1]
    return slowest_first(ranks)
