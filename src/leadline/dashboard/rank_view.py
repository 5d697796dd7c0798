"""The ranks of a run as the page shows them: all in a table, of many the slowest and the quickest in the charts."""

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

PAGE: Final = 50
"""So many ranks stand on a page of the table."""
MOST_DRAWN: Final = 64
"""So many ranks are drawn; of more, the slowest and the quickest half of it."""
ORDERS: Final = {"slowest": "slowest first", "quickest": "quickest first", "rank": "by rank"}
_RANK: Final = re.compile(r"rank(\d+)-")


@dataclass(frozen=True, slots=True)
class RankRow:
    """A rank beside the others.

    Units:
        Milliseconds a step, medians.
    """

    rank: int
    worker: str
    node: str
    step_ms: float
    more_ms: float
    """Beyond the median rank's step."""
    parts: tuple[float, ...]
    is_straggler: bool


@dataclass(frozen=True, slots=True)
class RankPage:
    """A page of the table of ranks."""

    rows: tuple[RankRow, ...]
    parts: tuple[str, ...]
    """The phases that any rank has."""
    page: int
    pages: int
    order: str


def rank_page(run: Run, ranks: Ranks, *, order: str, page: int) -> RankPage:
    """One page of the ranks in an order."""
    parts = tuple(part for part in PARTS if any(each.get(part, 0.0) > 0 for each in ranks.by_rank.values()))
    places = _ordered(ranks, order)
    pages = max(1, -(-len(places) // PAGE))
    page = min(max(page, 1), pages)
    documents = _documents(run)
    usual = sorted(each["step"] for each in ranks.by_rank.values())[len(ranks.by_rank) // 2]
    slow = ranks.straggler.rank if ranks.straggler else None
    rows = tuple(
        RankRow(
            rank,
            *documents.get(rank, ("", "")),
            times["step"],
            times["step"] - usual,
            tuple(times.get(part, 0.0) for part in parts),
            rank == slow,
        )
        for rank in places[(page - 1) * PAGE : page * PAGE]
        for times in (ranks.by_rank[rank],)
    )
    return RankPage(rows, parts, page, pages, order if order in ORDERS else "slowest")


def drawn(ranks: Ranks) -> Ranks:
    """The ranks that a chart shows: all, or of many the slowest and the quickest."""
    if len(ranks.by_rank) <= MOST_DRAWN:
        return ranks
    places = _ordered(ranks, "slowest")
    kept = {*places[: MOST_DRAWN // 2], *places[-(MOST_DRAWN // 2) :]}
    if ranks.straggler:
        kept.add(ranks.straggler.rank)
    return Ranks({rank: ranks.by_rank[rank] for rank in sorted(kept)}, ranks.steps, ranks.straggler)


def drawn_workers(run: Run, ranks: Ranks, most: int = 8) -> list[str]:
    """The workers whose steps are drawn over time: all of few, of more the slowest and the quickest."""
    documents = _documents(run)
    places = _ordered(ranks, "slowest")
    chosen = places if len(places) <= most else [*places[: most // 2], *places[-(most // 2) :]]
    return sorted((documents[rank][0] for rank in chosen if rank in documents), key=natural_sort_key)


def replica_names(digest: Digest, most: int = 400) -> dict[str, list[str]]:
    """Statistics by tensor, of the tensors that several workers captured; losses and norms first."""
    found: dict[str, list[str]] = {}
    for tensor, statistics in digest.captured().items():
        shared = sorted(statistic for statistic, workers in statistics.items() if len(workers) > 1)
        if shared:
            found[tensor] = shared
    ordered = sorted(found, key=lambda name: ("value" not in found[name], natural_sort_key(name)))
    return {name: found[name] for name in ordered[:most]}


def _ordered(ranks: Ranks, order: str) -> list[int]:
    if order == "rank":
        return sorted(ranks.by_rank)
    sign = 1 if order == "quickest" else -1
    return sorted(ranks.by_rank, key=lambda rank: (sign * ranks.by_rank[rank]["step"], rank))


def _documents(run: Run) -> dict[int, tuple[str, str]]:
    """The latest worker of each rank, and its node."""
    documents: Mapping[str, dict[str, Any]] = run.worker_documents()
    latest = sorted(documents.items(), key=lambda each: each[1].get("started_ns") or 0)
    return {int(found[1]): (name, str(told.get("node") or "")) for name, told in latest if (found := _RANK.match(name))}
