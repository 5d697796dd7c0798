"""View of the Ranks page: a table of all ranks, and the slowest and fastest in charts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from leadline.analysis.digest import Digest
from leadline.analysis.ranks import Ranks
from leadline.analysis.steps import PARTS
from leadline.reader.run import Run
from leadline.reader.window import natural_sort_key

PAGE_ROWS: Final = 50
"""Ranks on a page of the table."""
MAX_CHARTED: Final = 64
"""Maximum number of ranks in a chart; of more, the slowest and fastest are drawn."""
ORDERS: Final = {"slowest": "slowest first", "quickest": "fastest first", "rank": "by rank"}
_RANK: Final = re.compile(r"rank(\d+)-")


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
    """Step time above the median rank."""
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
    documents = _documents(run)
    median_ms = sorted(times["step"] for times in ranks.by_rank.values())[len(ranks.by_rank) // 2]
    straggler = ranks.straggler.rank if ranks.straggler else None
    rows = tuple(
        RankRow(
            rank,
            *documents.get(rank, ("", "")),
            times["step"],
            times["step"] - median_ms,
            tuple(times.get(part, 0.0) for part in parts),
            rank == straggler,
        )
        for rank in ordered_ranks[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
        for times in (ranks.by_rank[rank],)
    )
    return RankPage(rows, parts, page, pages, order if order in ORDERS else "slowest")


def charted_ranks(ranks: Ranks) -> Ranks:
    """Return the ranks that a chart shows: all, or the slowest and fastest of many."""
    if len(ranks.by_rank) <= MAX_CHARTED:
        return ranks
    ordered_ranks = _ordered(ranks, "slowest")
    selected = {*ordered_ranks[: MAX_CHARTED // 2], *ordered_ranks[-(MAX_CHARTED // 2) :]}
    if ranks.straggler:
        selected.add(ranks.straggler.rank)
    return Ranks({rank: ranks.by_rank[rank] for rank in sorted(selected)}, ranks.steps, ranks.straggler)


def charted_workers(run: Run, ranks: Ranks, limit: int = 8) -> list[str]:
    """Return the workers whose steps are drawn over time: all, or the slowest and fastest of many."""
    documents = _documents(run)
    ordered_ranks = _ordered(ranks, "slowest")
    selected = (
        ordered_ranks
        if len(ordered_ranks) <= limit
        else [*ordered_ranks[: limit // 2], *ordered_ranks[-(limit // 2) :]]
    )
    return sorted((documents[rank][0] for rank in selected if rank in documents), key=natural_sort_key)


def replica_names(digest: Digest, limit: int = 400) -> dict[str, list[str]]:
    """Return the statistics by tensor, for tensors captured by several workers; scalars first."""
    statistics_by_tensor: dict[str, list[str]] = {}
    for tensor, statistics in digest.captured().items():
        shared = sorted(statistic for statistic, workers in statistics.items() if len(workers) > 1)
        if shared:
            statistics_by_tensor[tensor] = shared
    ordered = sorted(
        statistics_by_tensor, key=lambda name: ("value" not in statistics_by_tensor[name], natural_sort_key(name))
    )
    return {name: statistics_by_tensor[name] for name in ordered[:limit]}


def _ordered(ranks: Ranks, order: str) -> list[int]:
    if order == "rank":
        return sorted(ranks.by_rank)
    sign = 1 if order == "quickest" else -1
    return sorted(ranks.by_rank, key=lambda rank: (sign * ranks.by_rank[rank]["step"], rank))


def _documents(run: Run) -> dict[int, tuple[str, str]]:
    """Return the latest worker of each rank, and its node."""
    documents: Mapping[str, dict[str, Any]] = run.worker_documents()
    latest = sorted(documents.items(), key=lambda item: item[1].get("started_ns") or 0)
    return {int(m[1]): (name, str(document.get("node") or "")) for name, document in latest if (m := _RANK.match(name))}
