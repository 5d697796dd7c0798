"""The page Runs: every run below the root."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from leadline.dashboard.charts import Chart
from leadline.dashboard.page import render, site
from leadline.dashboard.run_list import RunRow
from leadline.records.names import JOB_STATUSES, RULE_STATUSES

ROWS: Final = 200
"""On a page."""
_MOST_COURSES: Final = 24
_ORDER: Final[dict[str, int]] = {each: place for place, each in enumerate(JOB_STATUSES)}
_PLACES: Final = {"IssuesFound": 0, "Error": 1, "InProgress": 2, "Stopping": 3, "Stopped": 4, "NoIssuesFound": 5}
_SORTS: Final[dict[str, Callable[[RunRow], Any]]] = {
    "name": lambda row: row.name.lower(),
    "status": lambda row: _ORDER.get(row.status, len(_ORDER)),
    "started": lambda row: -row.started_ns,
    "duration": lambda row: -row.seconds,
    "steps": lambda row: -row.steps,
    "rules": lambda row: (_place(row.worst), -len(row.fired)),
}
"""Each in the direction in which one usually wants it."""


def _place(status: str) -> int:
    return _PLACES.get(status, len(_PLACES))


@dataclass(frozen=True, slots=True)
class RunQuery:
    """Which runs, in which order, which of them."""

    words: str = ""
    status: str = ""
    worst: str = ""
    sort: str = "started"
    is_reversed: bool = False
    page: int = 1

    def link(self, **changes: Any) -> str:
        """The address of the same list with other wishes."""
        told = {
            "q": self.words,
            "status": self.status,
            "rules": self.worst,
            "sort": self.sort if self.sort != "started" else "",
            "reversed": "yes" if self.is_reversed else "",
            "page": "",
            **changes,
        }
        query = urlencode({key: value for key, value in told.items() if value})
        return f"/?{query}" if query else "/"

    def turned(self, sort: str) -> str:
        """The address of the list sorted by a column; the other way round where it is sorted by it."""
        is_reversed = self.sort == sort and not self.is_reversed
        return self.link(sort=sort if sort != "started" else "", reversed="yes" if is_reversed else "")


def read_wanted(query: QueryParams) -> RunQuery:
    """What a query asks for; what nobody knows is left out."""
    status, worst, sort, page = (query.get(key, "") for key in ("status", "rules", "sort", "page"))
    return RunQuery(
        words=query.get("q", "").strip()[:200],
        status=status if status in JOB_STATUSES else "",
        worst=worst if worst in RULE_STATUSES else "",
        sort=sort if sort in _SORTS else "started",
        is_reversed=query.get("reversed") == "yes",
        page=max(1, int(page)) if page.isdecimal() and len(page) < 9 else 1,
    )


def select(rows: list[RunRow], wanted: RunQuery) -> list[RunRow]:
    """The rows that are wanted, in order: each word stands in the name, the command, or the name of a fired rule."""
    words = wanted.words.lower().split()
    found = [
        row
        for row in rows
        if (not wanted.status or row.status == wanted.status)
        and (not wanted.worst or row.worst == wanted.worst)
        and all(word in f"{row.name} {row.command} {' '.join(row.fired)}".lower() for word in words)
    ]
    found.sort(key=lambda row: (-row.started_ns, row.name))
    return sorted(found, key=_SORTS[wanted.sort], reverse=wanted.is_reversed)


def runs(request: Request) -> Response:
    """``/``."""
    rows, wanted = site(request).board.rows(), read_wanted(request.query_params)
    found = select(rows, wanted)
    pages = max(1, -(-len(found) // ROWS))
    page = min(wanted.page, pages)
    said = {
        "title": "Runs",
        "root": site(request).shelf.root,
        "count": len(rows),
        "found": len(found),
        "wanted": wanted,
        "rows": found[(page - 1) * ROWS : page * ROWS],
        "shown_page": page,
        "pages_there": pages,
        "now_ns": time.time_ns(),
        "statuses": JOB_STATUSES,
        "rule_statuses": RULE_STATUSES,
        "columns": {
            "name": "Run",
            "status": "Status",
            "started": "Age",
            "duration": "Duration",
            "steps": "Steps",
            "rules": "Rules",
        },
    }
    return render(request, "runs.html", said)


def courses(request: Request) -> Response:
    """``/courses.json?run=NAME&run=NAME``: the losses of a few runs as numbers."""
    found, answer = site(request), {}
    versions = {row.name: row.version for row in found.board.rows()}
    for name in request.query_params.getlist("run")[:_MOST_COURSES]:
        if name in versions:
            path = os.path.join(found.shelf.root, name)
            answer[name] = {"version": versions[name], "values": found.courses.course(path, versions[name])}
    return JSONResponse(answer)


ROUTES: Final = [Route("/", runs), Route("/courses.json", courses)]
CHARTS: Final[dict[str, Chart]] = {}
